"""Size and time of a report for 10, 1,000 and 100,000 groups, beyond the estimate.

Bars: 1,000 groups under 1 MB; 100,000 under 5 MB and under 20 s. Times are of one run each, in one process, after
matplotlib is loaded; the estimate beside them is the floor that users wait for anyway.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

import fieldcal

SIZES = (10, 1_000, 100_000)
CLASSES = (2, 5)
ROWS = 40  # of a group, on average


def drawn(n_groups: int, n_classes: int) -> tuple[fieldcal.Lab, fieldcal.Field]:
    data = fieldcal.datasets.label_shift(
        n_lab=5_000,
        n_field=ROWS * n_groups,
        n_groups=n_groups,
        p_lab=np.full(n_classes, 1 / n_classes),
        random_state=0,
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    names = np.array([f"customer {g:06}" for g in range(n_groups)])
    return lab, fieldcal.count(lab, data.proba_field, groups=names[data.groups_field])


def main() -> None:
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
    lab, field = drawn(3, 2)
    fieldcal.report(fieldcal.estimate(lab, field)).html()  # loads what has to be loaded
    print(
        f"{'groups':>8} {'classes':>8} {'estimate':>10} {'content':>9} {'page':>8} {'HTML':>10} {'JSON':>10}"
    )
    for n_classes in CLASSES:
        for n_groups in SIZES if n_classes == 2 else SIZES[:2]:
            lab, field = drawn(n_groups, n_classes)
            times = [time.perf_counter()]
            prev = fieldcal.estimate(lab, field)
            times.append(time.perf_counter())
            found = fieldcal.report(prev)
            times.append(time.perf_counter())
            page = found.html().encode("utf-8")
            times.append(time.perf_counter())
            estimate, content, drawing = np.diff(times)
            print(
                f"{n_groups:>8,} {n_classes:>8} {estimate:>8.1f} s {content:>7.1f} s {drawing:>6.1f} s "
                f"{len(page) / 1e6:>7.2f} MB {len(found.json()) / 1e6:>7.2f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
