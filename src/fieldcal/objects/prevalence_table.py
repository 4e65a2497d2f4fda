"""An estimate as tables: for people, as plain columns, and for pandas, polars or pyarrow."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.core.values import Values
from fieldcal.errors import MissingExtraError
from fieldcal.objects import break_even, group_keys, show
from fieldcal.options import check_choice
from fieldcal.types import Keys

if TYPE_CHECKING:
    from fieldcal.objects.derived import Comparison, Pairs
    from fieldcal.objects.over_time import OverTime
    from fieldcal.objects.prevalence import Prevalence

_SHOWN_GROUPS = 12
_SHOWN_LINES = 36  # group lines, if every class has one


def title(prev: Prevalence) -> str:
    rows = f"{float(np.sum(prev.n)):,.0f} rows"
    if not prev.field.grouped:
        return f"{prev.words.title} in one population, {rows}"
    classes = f"{len(prev.classes):,} {prev.lab.outcome.plural}"
    of = group_keys.show(prev.classes[1], width=30) if _shows_one_class(prev) else classes
    return f"{prev.words.share} of {of} in {len(prev.groups):,} groups, {rows}"


def table(prev: Prevalence) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a line per class of the whole field and of the largest groups."""
    interval = "" if prev.level is None else f"{prev.level:.0%} interval"
    first = ["group", "class"] if prev.field.grouped else ["class"]
    names = [prev.words.mean_prediction, "under label shift", prev.words.estimate]
    head = [*first, "n", *names, interval, "status"]
    lines = [_line(prev, *line) for line in shown_lines(prev)]
    left_out = {"class"} if _shows_one_class(prev) else set()
    if not prev.words.lab:  # no assumption about the shift
        left_out.add("under label shift")
    kept = [i for i, column in enumerate(head) if column not in left_out]
    return [head[i] for i in kept], [[line[i] for i in kept] for line in lines]


def sheet(prev: Prevalence, *, all_in: str = show.TO_FRAME) -> show.Sheet:
    """The table of prevalences; ``all_in`` names the place of the full table."""
    head, rows = table(prev)
    used = [i for i, name in enumerate(head) if name]  # without an interval, no column
    cells = [[row[i] for i in used] for row in rows]
    return show.Sheet(
        title(prev), [head[i] for i in used], cells, _notes(prev, all_in), names=head.index("n")
    )


def _notes(prev: Prevalence, all_in: str = show.TO_FRAME) -> tuple[str, ...]:
    return _hidden_text(prev, all_in), trust_text(prev), show.positive_text(prev.lab), labels_text(prev)


def trust_text(prev: Prevalence) -> str:
    """The probabilities of label shift behind the estimate; empty for categories."""
    if prev.is_judged:
        return ""
    between = f", between groups {prev.trust_between:.2f}" if prev.field.grouped else ""
    return f"probability of label shift: whole field {prev.trust_overall:.2f}{between}"


def labels_text(prev: Prevalence) -> str:
    """The effect of labelled rows on the estimate; for categories their number; empty without any."""
    if prev.is_judged:
        return show.labelled_text(prev.field)
    return "" if prev.labels is None else str(prev.by_model)


def _hidden_text(prev: Prevalence, all_in: str) -> str:
    """The number of groups and classes that the table leaves out, and where they are."""
    lines = shown_lines(prev)
    outcome = prev.lab.outcome
    hidden = 0 if _shows_one_class(prev) else len(prev.classes) - len({k for *_, k in lines})
    left = {
        ("group", "groups"): len(prev.groups) - len({g for _, g, _ in lines if g is not None}),
        (outcome.noun, outcome.plural): hidden,
    }
    omitted = " and ".join(f"{n:,} more {what[n > 1]}" for what, n in left.items() if n)
    return f"… and {omitted}: all are in {all_in}" if omitted else ""


def _shows_one_class(prev: Prevalence) -> bool:
    """Whether groups have one line each, as the second of two classes is enough."""
    return prev.field.grouped and len(prev.classes) == 2


def text(prev: Prevalence) -> str:
    """Title, table, notes and verdict as plain text."""
    head, rows = table(prev)
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in [head, *rows]]
    notes = [f"  {note}" for note in _notes(prev) if note]
    return "\n".join([title(prev), *lines, *notes, repr(prev.verdict)])


def shown_class(prev: Prevalence) -> int:
    """The second of two classes; of more, the one with the largest correction."""
    if len(prev.classes) == 2:
        return 1
    rows = np.asarray(prev.n, dtype=np.float64) @ np.abs(prev.estimate - prev.mean_prediction)
    return int((rows if rows.any() else np.abs(prev.whole.urc - prev.lab.p_lab)).argmax())


def shown_lines(prev: Prevalence) -> list[tuple[Hashable, int | None, int]]:
    """The lines: name, position of the group (None: the whole field) and of the class."""
    changed = show.largest(np.abs(prev.whole.urc - prev.lab.p_lab), show.SHOWN_CLASSES)
    classes = [1] if _shows_one_class(prev) else sorted(changed)
    if not prev.field.grouped:
        return [(prev.classes[k], 0, k) for k in classes]
    fit = 1 if len(classes) > _SHOWN_LINES else _SHOWN_LINES // len(classes)
    at = show.largest(prev.n, min(fit, _SHOWN_GROUPS))
    lines: list[tuple[Hashable, int | None]] = [("whole field", None), *((prev.groups[g], g) for g in at)]
    return [(name, g, k) for name, g in lines for k in classes]


def interval_text(prev: Prevalence, g: int | None, k: int) -> str:
    """The interval of one class in a group, or in the whole field; empty without a level."""
    lower, upper = (prev.whole.lower, prev.whole.upper) if g is None else (prev.lower, prev.upper)
    if lower is None or upper is None:
        return ""
    at = k if g is None else (g, k)
    return f"{lower[at]:.3f} – {upper[at]:.3f}"


def _line(prev: Prevalence, name: Hashable, g: int | None, k: int) -> list[str]:
    held, at = (prev.whole, k) if g is None else (prev, (g, k))
    shares = (held.mean_prediction[at], held.urc[at], held.estimate[at])
    n, status = (np.sum(prev.n), "") if g is None else (prev.n[g], show.status(prev.status[g]))
    names = [show.name(name), show.name(prev.classes[k])] if prev.field.grouped else [show.name(name)]
    numbers = [show.amount(n), *(f"{share:.3f}" for share in shares), interval_text(prev, g, k)]
    return [*names, *numbers, status]


def share_columns(prev: Prevalence) -> dict[str, list[Any]]:
    """One row per group and class, those of the whole field first."""
    table, K = prev.to_dict(), len(prev.classes)
    keys = [name for name in table if name.startswith("group")]
    labelled = [int(n) for n in prev.field.labelled_rows]
    counts = [sum(labelled), *(labelled if prev.field.grouped else ())]
    verdicts = {"verdict_share": table["mean_prediction"]} if _values_are_classes(prev) else {}
    return {
        "scope": ["slice" if scope == "group" else scope for scope in table["scope"]],
        **{name.replace("group", "slice", 1): table[name] for name in keys},
        "class": table["class"],
        "n": table["n"],
        "labelled": [n for n in counts for _ in range(K)],
        **verdicts,
        "share": table["estimate"],
        "lower": table["lower"],
        "upper": table["upper"],
        "status": table["status"],
    }


def comparisons(prev: Prevalence, pairs: Pairs | None) -> list[Comparison]:
    """Every two groups: the shares of the last of two classes, or of each of more."""
    if not prev.field.grouped or len(prev.groups) < 2:
        return []
    classes = prev.classes[1:] if len(prev.classes) == 2 else prev.classes
    return [prev.compare(of=c, pairs=pairs) for c in classes]


def difference_columns(comparisons: Sequence[Comparison]) -> dict[str, list[Any]]:
    """One row per class and two groups, the surest first."""
    rows = [(c.of, dataclasses.asdict(d)) for c in comparisons for d in c.differences]
    names = ("lower", "upper", "all_lower", "all_upper", "probability", "found")
    return {
        "class": [of for of, _ in rows],
        "slice": [_in_one_cell(row["a"]) for _, row in rows],
        "against": [_in_one_cell(row["b"]) for _, row in rows],
        "difference": [row["estimate"] for _, row in rows],
        **{name: [row[name] for _, row in rows] for name in names},
    }


def _values_are_classes(prev: Prevalence) -> bool:
    """Whether a judge gives the classes themselves, so that its verdicts have shares to compare with."""
    partition = prev.lab.partition
    if not isinstance(partition, Values) or partition.m != len(prev.classes):
        return False
    return len(partition.says(prev.classes)) == partition.m


def _in_one_cell(key: Hashable) -> Any:
    """A group of several columns: its parts with commas."""
    if not isinstance(key, tuple):
        return key
    return ",".join("null" if part is None else str(part) for part in key)


_LIBRARIES = ("pandas", "polars", "pyarrow")
_SHARES = ("mean_prediction", "urc", "estimate", "lower", "upper")
_BY_CLASS = (*_SHARES, "break_even", "break_even_lower")


def columns(prev: Prevalence) -> dict[str, list[Any]]:
    """One row per class of the whole field, then one per group and class."""
    groups = prev.groups if prev.field.grouped else ()
    G, K = len(groups), len(prev.classes)
    table: dict[str, list[Any]] = {"scope": ["whole"] * K + ["group"] * (G * K)}
    for name, keys in _key_columns(groups).items():
        table[name] = [None] * K + [key for key in keys for _ in range(K)]
    table["class"] = list(prev.classes) * (G + 1)
    table["n"] = np.repeat([np.sum(prev.n), *prev.n[:G]], K).tolist()
    for name in _SHARES:
        whole, each = getattr(prev.whole, name), getattr(prev, name)
        known = whole is not None and each is not None
        table[name] = np.vstack([whole, each[:G]]).ravel().tolist() if known else [None] * (K * (G + 1))
    for name, found in break_even.against_lab(prev).items():
        cells = np.vstack([found[-1], found[:G]]).ravel().tolist()
        table[name] = [None if x != x else x for x in cells]
    table["trust_between"] = [prev.trust_between] * (K * (G + 1))
    table["trust_overall"] = [prev.trust_overall] * (K * (G + 1))
    of_lab = None if prev.by_model is None else prev.by_model.lab_rows
    of_lab = np.zeros(G) if of_lab is None else of_lab
    for name, rows in {"lab_labels": of_lab, "field_labels": prev.field.labelled_rows}.items():
        table[name] = [None] * K + np.repeat(rows[:G].astype(np.float64), K).tolist()
    first = None if prev.field.grouped else prev.status[0]
    table["status"] = [status for status in (first, *prev.status[:G]) for _ in range(K)]
    return table if prev.over_time is None else _with_windows(table, prev.over_time)


def _with_windows(table: dict[str, list[Any]], over_time: OverTime) -> dict[str, list[Any]]:
    """The table, and below it one row per window, group and class; no window means the whole time."""
    more, keys = over_time.columns(), [name for name in table if name.startswith("group")]
    own = more.pop("key")
    parts = own if len(keys) == 1 else [(None,) * len(keys) if key is None else key for key in own]
    mixed = (
        len(keys) == 1
        and any(isinstance(k, str) for k in table[keys[0]])
        and not all(k is None or isinstance(k, str) for k in own)
    )
    for i, name in enumerate(keys):
        more[name] = [key if len(keys) == 1 else key[i] for key in parts]
        more[name] = [group_keys.show(k) if mixed and k is not None else k for k in more[name]]
    rows, first = len(own), len(table["n"])
    for name in ("trust_between", "trust_overall"):
        more[name] = table[name][:1] * rows
    order = [*table, "window_start", "window_end", "filtered"]
    return {n: table.get(n, [None] * first) + more.get(n, [None] * rows) for n in order}


def widened(table: dict[str, list[Any]], classes: Keys) -> dict[str, list[Any]]:
    """The table with one row per group and a column per class, ``estimate_<class>``."""
    K = len(classes)
    wide = {name: values[::K] for name, values in table.items() if name not in (*_BY_CLASS, "class")}
    for k, label in enumerate(classes):
        wide |= {f"{name}_{group_keys.show(label)}": table[name][k::K] for name in _BY_CLASS}
    return wide


def to_frame(table: dict[str, list[Any]], backend: str | None) -> Any:
    """A table of the requested library, or of the first that is installed."""
    if backend is not None:
        check_choice("backend", backend, _LIBRARIES)
    for name in [backend] if backend else _LIBRARIES:
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        make = library.table if name == "pyarrow" else library.DataFrame
        return make(_for(name, table))
    install = backend if backend in ("pandas", "pyarrow") else "'fieldcal[polars]'"
    raise MissingExtraError(
        f"to_frame returns a table of {backend or 'pandas, polars or pyarrow'}, which is not installed. "
        f"Install it: pip install {install}; or use to_dict(), which needs no library."
    )


def _key_columns(groups: Keys) -> dict[str, list[Any]]:
    parts = {len(g) for g in groups if isinstance(g, tuple)}
    if len(parts) == 1 and all(isinstance(g, tuple) for g in groups):
        return {f"group_{i + 1}": [g[i] for g in groups] for i in range(parts.pop())}  # type: ignore[index]
    mixed = len({type(g) for g in groups if g is not None}) > 1
    return {"group": [group_keys.show(g) if mixed and g is not None else g for g in groups]}


def _for(library: str, table: dict[str, list[Any]]) -> dict[str, Any]:
    """Adapts a table to a library: nullable integers for pandas; lone surrogates, which no library accepts, as ?."""
    table = {name: [_valid(value) for value in values] for name, values in table.items()}
    if library != "pandas":
        return table
    gaps = [n for n, v in table.items() if None in v and {type(x) for x in v if x is not None} == {int}]
    return table | {name: np.array(table[name], dtype=object) for name in gaps}


def _valid(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
