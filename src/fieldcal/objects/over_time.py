"""Shares of a field followed over windows of time: what `Prevalence.over_time` holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.errors import InputError, option
from fieldcal.objects import group_keys
from fieldcal.objects.alarms import Alarms, alarms_of
from fieldcal.objects.outcome import place_of_class
from fieldcal.objects.windows import name_of
from fieldcal.types import Floats, Keys


@dataclass(frozen=True, eq=False)
class OverTime:
    """Shares of every group, and of the whole field, in every window.

    Made by `Prevalence.over_time`, of a field that was counted with ``time`` and ``every``. Tables have a row for the
    whole field, and then one for each group: R rows.

    Attributes
    ----------
    every, starts, ends : the length of the windows, and the times at which they start and end (not included)
    groups, classes : the keys of the rows, ``None`` first for the whole field; the K classes
    n : (R, T) rows; a window without any is missing, and its share is interpolated
    mean_prediction : (R, T, K) NaN in missing windows
    urc : (R, T, K) smoothed shares under label shift
    estimate, lower, upper : (R, T, K) smoothed shares with their interval
    filtered : (R, T, K) the same estimate from the windows up to each alone
    labelled, labelled_share : (R, T) labelled rows, and (R, T, K) their shares, NaN without any
    misfit, effect : (R, T) p-value and size (Cohen's w) of what no mixture of the classes explains in the window
    level : probability content of the intervals
    histograms, response : (R, T, m) effective rows without a label, by bin, and (K, m) those of the lab's classes
    draws : (R, draws, T, classes) joint draws of ``estimate``, of the second class if there are two
    """

    every: str
    starts: tuple[dt.datetime, ...]
    ends: tuple[dt.datetime, ...]
    groups: Keys
    classes: Keys
    n: Floats
    mean_prediction: Floats
    urc: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    filtered: Floats
    labelled: Floats
    labelled_share: Floats
    misfit: Floats
    effect: Floats
    level: float
    histograms: Floats = field(repr=False)
    response: Floats = field(repr=False)
    draws: NDArray[np.float32] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """The starts of the windows, as text."""
        return [name_of(start, self.every) for start in self.starts]

    def alarms(
        self, *, of: Hashable = None, margin: float = 0.0, rate: float = 0.05, since: Any = None
    ) -> Alarms:
        """Alarms of four kinds: the share changed, the assumption broke, the input broke, the volume changed.

        Each kind has a false alarm in any group and any window with a probability of at most ``rate``, however many
        windows there will be, and whenever somebody looks.

        Parameters
        ----------
        of : class, by default the last
        margin : width of the band within which a share may move without an alarm, 0.05 for five points
        rate : probability of a false alarm of a kind over the whole trajectory and all groups
        since : the window from which on alarms are looked for; after one that was dealt with, the next
        """
        return alarms_of(self, of=of, margin=margin, rate=rate, since=since)

    def draws_of(self, k: int) -> Floats:
        """Draws (R, draws, T) of the share of one class."""
        if len(self.classes) > 2:
            return np.asarray(self.draws[..., k], dtype=np.float64)
        second = np.asarray(self.draws[..., 0], dtype=np.float64)
        return second if k else 1 - second

    def place(self, window: Any) -> int:
        """The position of a window, by a time within it or by its number."""
        if isinstance(window, (int, np.integer)) and -len(self.starts) <= window < len(self.starts):
            return int(window) % len(self.starts)
        text = str(window)
        at = [t for t, start in enumerate(self.starts) if name_of(start, self.every) == text]
        if not at:
            first, last = (name_of(self.starts[i], self.every) for i in (0, -1))
            raise InputError(
                f"There is no window {text!r:.60}: the first starts on {first}, the last on {last}."
            )
        return at[0]

    def changes(self, reference: Any = 0, *, of: Hashable = None, margin: float = 0.0) -> Changes:
        """How far the share of a class differs from that in a reference window, in every group and window.

        Parameters
        ----------
        reference : the name of a window or its number; by default the first
        of : class, by default the last
        margin : the smallest difference that matters, 0.02 for two points
        """
        if not 0 <= margin < 1:
            raise InputError(f"{option('margin')} must be a share from 0 to 1, but got {margin!r:.40}.")
        k, r = place_of_class(self.classes, of), self.place(reference)
        draws = self.draws_of(k)
        difference = draws - draws[..., r : r + 1]
        tail = (1 - self.level) / 2
        lower, upper = np.quantile(difference, [tail, 1 - tail], axis=1)
        more, less = ((sign * difference > margin).mean(axis=1) for sign in (1, -1))
        return Changes(
            self, r, self.classes[k], margin, self.estimate[..., k] - self.estimate[:, r, None, k], lower, upper,
            more + less, np.maximum(more, less),
        )  # fmt: skip

    def columns(self) -> dict[str, list[Any]]:
        """One row per group, window and class: the rows that `Prevalence.to_frame` has of windows."""
        R, T, K = self.estimate.shape
        table: dict[str, list[Any]] = {
            "scope": [s for s in ["whole"] + ["group"] * (R - 1) for _ in range(T * K)]
        }
        keys = [key for key in self.groups for _ in range(T * K)]
        table |= {"key": keys, "class": list(self.classes) * (R * T)}
        for name, times in (("window_start", self.starts), ("window_end", self.ends)):
            whole_days = len(name_of(self.starts[0], self.every)) == 10
            shown = [time.date() if whole_days else time for time in times]
            table[name] = [time for _ in range(R) for time in shown for _ in range(K)]
        whole = np.array_equal(self.n, np.floor(self.n))
        table["n"] = np.repeat(self.n.astype(np.int64) if whole else self.n, K).tolist()
        for name in ("mean_prediction", "urc", "estimate", "lower", "upper", "filtered"):
            values = getattr(self, name).ravel().tolist()
            table[name] = [None if v != v else v for v in values]
        table["field_labels"] = np.repeat(self.labelled, K).tolist()
        missing = np.where(self.n > 0, "ok", "missing").ravel().tolist()
        table["status"] = [status for status in missing for _ in range(K)]
        return table

    def __repr__(self) -> str:
        first, last = (name_of(self.starts[i], self.every) for i in (0, -1))
        missing = int((self.n == 0).sum())
        gaps = f", {missing:,} without rows" if missing else ""
        groups = f"{len(self.groups) - 1:,} groups" if len(self.groups) > 1 else "one population"
        return (
            f"OverTime: {len(self.starts):,} windows of {self.every} from {first} to {last}, {groups}{gaps}"
        )


@dataclass(frozen=True, eq=False)
class Changes:
    """Differences of a share to a reference window; tables have a row for the whole field, then one for each group.

    Attributes
    ----------
    estimate, lower, upper : (R, T) difference to the reference window, with its interval
    probability : (R, T) that the share differs by more than the margin
    direction : (R, T) that it differs by more than the margin in its more probable direction
    """

    over_time: OverTime
    reference: int
    of: Hashable
    margin: float
    estimate: Floats
    lower: Floats
    upper: Floats
    probability: Floats
    direction: Floats

    def found(self, window: Any = -1, *, errors: float = 0.05) -> tuple[Hashable, ...]:
        """Groups whose share differs by more than the margin in a window, the most certain first.

        As many as keep the expected share of wrong ones among them at ``errors`` or below (false discovery rate).
        """
        t, groups = self.over_time.place(window), self.over_time.groups
        rows = np.arange(min(1, len(groups) - 1), len(groups))
        wrong = 1 - self.direction[rows, t]
        order = np.argsort(wrong, kind="stable")
        share = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
        return tuple(groups[rows[i]] for i in order[: int((share <= errors).sum())])

    def points(self, *, least: float = 0.5) -> dict[Hashable, list[str]]:
        """Change points: windows in which the share moved by more than the margin from the one before, by group.

        ``least`` is the probability from which a step is one.
        """
        k = place_of_class(self.over_time.classes, self.of)
        moved = np.abs(np.diff(self.over_time.draws_of(k), axis=2)) > max(self.margin, 1e-9)
        steps = np.diff(self.over_time.draws_of(k), axis=2)
        sure = np.maximum(((steps > 0) & moved).mean(axis=1), ((steps < 0) & moved).mean(axis=1)) >= max(
            least, 0.5
        )
        tail = (1 - self.over_time.level) / 2
        lower, upper = np.quantile(steps, [tail, 1 - tail], axis=1)
        sure &= (lower > 0) | (upper < 0)
        names = [name_of(start, self.over_time.every) for start in self.over_time.starts]
        return {
            key: [names[t + 1] for t in np.flatnonzero(row)]
            for key, row in zip(self.over_time.groups, sure, strict=True)
            if row.any()
        }

    def __repr__(self) -> str:
        start = name_of(self.over_time.starts[self.reference], self.over_time.every)
        of = group_keys.show(self.of, width=30)
        return f"Changes in the share of {of} since {start}: {len(self.found()):,} of {len(self.estimate):,} rows now"
