"""Prevalence: the answer, per group."""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import PrivateAttr, model_validator

from fieldcal.core.goodness_of_fit import ShiftExplained
from fieldcal.core.priors import Prior
from fieldcal.core.reweight import BinStep, Step, steps_of
from fieldcal.core.solve import Solution
from fieldcal.core.trust import Evidence, Trust
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import derived, frames, group_keys, performance, show
from fieldcal.objects.artefact import (
    LARGEST,
    Artefact,
    Counts,
    Flags,
    Frozen,
    Learnt,
    Numbers,
    Texts,
    check_shapes,
    record,
)
from fieldcal.objects.derived import Assume, Comparison, Interval, Pairs, Ranking, check_assume
from fieldcal.objects.field import Field
from fieldcal.objects.from_model import FieldLabels, FromModel
from fieldcal.objects.judged import Judged, steps_to_shares
from fieldcal.objects.lab import Lab
from fieldcal.objects.verdict import Verdict
from fieldcal.options import check_options
from fieldcal.types import Floats, Ints, Keys, Shape

if TYPE_CHECKING:
    from rich.console import Group

    from fieldcal.core.field_posterior import Posterior


@dataclass(frozen=True)
class Correction:
    """The steps that predictions take: those of an estimate, or of prevalences that the caller knows."""

    #: At most two; the weights of each are (K,), the same for all, or (G, K), or of bins, which come first.
    steps: tuple[Step | BinStep, ...]
    steps_unseen: tuple[Step | BinStep, ...]  # of a group that is not among these
    groups: Keys
    grouped: bool
    n_classes: int
    known: bool = False  # by the caller: there is no whole field that an unseen group could go with


#: The name of the posterior of values, in place of a prior's.
JUDGE = "judge"
_SHOWN_GROUPS = 12
_SHOWN_LINES = 36  # of groups, where every class has one


def _posteriors() -> Any:
    """Posteriors are made of estimates, so `verbs` imports objects; here they are loaded when somebody asks."""
    return importlib.import_module("fieldcal.verbs.posteriors")


class Fit(Frozen):
    """How the estimate was reached and how well it fits, per group."""

    gap: Numbers | None  # (G,) optimality gap of the mode, per row; None where the mean is the estimate
    n_iter: Counts | None  # (G,)
    converged: Flags | None  # (G,)
    novel: Counts  # (G,) rows in bins that the lab never filled
    statistic: Numbers  # (G,) of the misfit, chi-square if the assumption holds
    df: int
    p_value: Numbers  # (G,)
    adjusted: Numbers  # (G,) under false-discovery control
    effect: Numbers  # (G,) Cohen's w of the misfit
    whole_effect: float  # the same of the field as one population
    whole_p_value: float

    @classmethod
    def of(cls, mode: Solution | None, evidence: Evidence) -> Self:
        """From what was measured, and the solver where the mode is the estimate."""
        misfit = evidence.misfit
        return cls(
            gap=None if mode is None else mode.gap,
            n_iter=None if mode is None else mode.n_iter,
            converged=None if mode is None else mode.converged,
            novel=evidence.novel,
            statistic=misfit.statistic,
            df=misfit.df,
            p_value=misfit.p_value,
            adjusted=misfit.adjusted,
            effect=misfit.effect,
            whole_effect=float(evidence.whole.effect[0]),
            whole_p_value=float(evidence.whole.p_value[0]),
        )


class WholeField(Frozen):
    """The field as one population, each number per class, (K,)."""

    n: float
    mean_prediction: Numbers
    urc: Numbers  # whatever the trust
    estimate: Numbers  # after trust
    lower: Numbers | None
    upper: Numbers | None


class Prevalence(Artefact):
    """Class prevalences per group: the mean prediction, URC's, and the one to use, with an interval.

    Made by `fieldcal.estimate`; handed to `fieldcal.recalibrate`.

    Attributes
    ----------
    design_effect : how many times larger the field's variance was taken to be than that of independent rows
    urc : (G, K) URC's estimate, whatever the trust
    estimate : (G, K) the prevalence after trust: the mean prediction at trust 0, URC's at trust 1; with labels of the
        field, what they make of it
    lower, upper : (G, K) interval of ``estimate`` at ``level``
    whole : the same of the field as one population: ``whole.estimate`` and so on, each (K,)
    status : (G,) "ok", or what to know about the group
    verdict : whether to use it, and why
    fit : how the estimate was reached and how well it fits

    Examples
    --------
    >>> import fieldcal
    >>> prev = fieldcal.datasets.example().prev
    >>> prev.groups, prev.classes, prev.status
    ((0, 1), (0, 1), ('care', 'care'))
    >>> prev.draws().shape, prev.ranking().probability.round(2).tolist()
    ((2, 1024, 2), [0.0, 1.0])
    >>> 0.25 < prev.poststratify({0: 1, 1: 1}).estimate < 0.45
    True
    >>> sorted(prev.performance())
    ['count', 'precision', 'recall']
    >>> prev.to_frame("polars").shape, prev.to_frame("polars", wide=True).shape
    ((6, 14), (3, 18))
    >>> print(prev[0][1])
    0.107 (90% interval 0.085 to 0.128; verdict: use with care)
    """

    kind: ClassVar[str] = "prevalence"

    lab: Lab
    field: Field
    prior: dict[str, Any]  # its name and parameters
    learnt: Learnt  # what the field taught of it
    point: Literal["mean", "mode"]
    level: float | None = Slot(gt=0, lt=1)
    seed: int = Slot(ge=0)
    by_model: FromModel | None = None  # with labels of lab groups or of field rows
    design_effect: float = Slot(default=1.0, ge=1, le=LARGEST)
    urc: Numbers
    estimate: Numbers
    lower: Numbers | None
    upper: Numbers | None
    whole: WholeField
    trust: record(Trust)  # type: ignore[valid-type]
    overall_shift: record(ShiftExplained)  # type: ignore[valid-type]
    status: Texts
    verdict: Verdict
    protected: bool
    fit: Fit
    _prior: Prior | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _empty_shapes(cls, values: Any) -> Any:
        """JSON cannot tell the width of a table without rows."""
        whole = values.get("whole") if isinstance(values, dict) else None
        width = np.size(whole.get("urc", 0)) if isinstance(whole, dict) else 0
        if width < 2:
            return values
        empty = np.zeros((0, width))
        tables = ("urc", "estimate", "lower", "upper")
        return values | {n: empty for n in tables if values.get(n) is not None and np.size(values[n]) == 0}

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        G, K = len(self.field.groups), len(self.lab.classes)
        if not self.field.is_of(self.lab):
            raise ValueError("the field was counted with another lab")
        if (self.labels is None) == (bool(self.field.labelled) and not self.is_judged):
            raise ValueError("by_model must have labels if the field has labelled rows, and only then")
        names = ("urc", "estimate", "lower", "upper")
        check_shapes(self, dict.fromkeys(names, (G, K)))
        check_shapes(self.whole, dict.fromkeys(("mean_prediction", *names), (K,)), "whole: ")
        fit = [name for name, value in vars(self.fit).items() if isinstance(value, np.ndarray)]
        check_shapes(self.fit, dict.fromkeys(fit, (G,)), "fit: ")
        found = self.by_model
        if found is not None and not found.fits(n_groups=G, n_bins=self.lab.n_bins, n_classes=K):
            raise ValueError("by_model does not fit the groups, bins and classes")
        if len(self.status) != G:
            raise ValueError("status does not fit the groups")
        return self

    @property
    def groups(self) -> Keys:
        """The G group keys; the single key None when the field has no groups."""
        return self.field.groups

    @property
    def classes(self) -> Keys:
        """The K classes, in the order of the columns."""
        return self.lab.classes

    @property
    def n(self) -> NDArray[Any]:
        """(G,) rows per group, or sums of their weights."""
        return self.field.n

    @property
    def mean_prediction(self) -> Floats:
        """(G, K) mean prediction."""
        return self.field.mean_prediction

    @property
    def trust_overall(self) -> float:
        """The probability that the whole field moved by label shift."""
        return float(self.trust.overall)

    @property
    def trust_between(self) -> float:
        """The probability that groups differ by label shift; that of the whole field where there are no groups."""
        return float(self.trust.between)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What happens to the predictions of every group: at most two mixtures, the weights of each (K,) or (G, K).

        Those of ``shape="tilt"``; `correction` has also those of bins.
        """
        if self.is_judged:
            grouped = self.field.grouped
            return steps_to_shares(self.lab, self.field.V, self.estimate) if grouped else self.steps_unseen
        if self.by_model is not None:
            return self.by_model.steps(unseen=not self.field.grouped)
        return steps_of(
            urc=self.urc,
            whole=self.whole.urc,
            p_lab=self.lab.p_lab,
            overall=self.trust.overall,
            between=self.trust.between,
            grouped=self.field.grouped,
        )

    @property
    def untouched(self) -> bool:
        """Whether every prediction stays what the model said: nothing is corrected, nor calibrated on the lab."""
        return not self.steps and self.lab.calibration_map is None

    @property
    def only_calibrated(self) -> bool:
        """Whether predictions are calibrated on the lab, but not corrected for the field."""
        return not self.steps and self.lab.calibration_map is not None

    @cached_property
    def steps_unseen(self) -> tuple[Step, ...]:
        """The same for a group that was never seen: it moves as the whole field does."""
        if self.is_judged:
            total = self.field.V.sum(axis=0, dtype=np.float64)
            (step,) = steps_to_shares(self.lab, total[None], self.whole.estimate[None])
            return (replace(step, weights=step.weights[0]),)
        if self.by_model is not None:
            return self.by_model.steps(unseen=True)
        return steps_of(
            urc=self.whole.urc[None],
            whole=self.whole.urc,
            p_lab=self.lab.p_lab,
            overall=self.trust.overall,
            between=0.0,
            grouped=False,
        )

    def shape_of(self, shape: Shape) -> Literal["tilt", "bins"]:
        """What ``shape="auto"`` is: bins where the lab's groups correct the calibration that they have in common."""
        check_options(shape=shape)
        if shape != "auto":
            return shape
        return "bins" if self.rests_on_lab_groups and self.lab.partition.takes_probabilities else "tilt"

    def correction(self, shape: Shape = "auto") -> Correction:
        """What `recalibrate` does to predictions."""
        shape = self.shape_of(shape)
        about = (self.groups, self.field.grouped, len(self.classes))
        if shape == "tilt":
            return Correction(self.steps, self.steps_unseen, *about)
        if self.is_judged:
            raise InputError(
                f"{option('shape', 'bins')} is for probabilities: values are told class by class anyway. Leave it out."
            )
        if self.by_model is None:
            raise InputError(
                f"{option('shape', 'bins')} corrects predictions bin by bin, which takes labels of the field or of "
                "the lab's groups, but none were counted. Label some rows (see fieldcal plan), count them with their "
                "labels and estimate again; or leave it out."
            )
        found, partition = self.by_model, self.lab.partition
        seen, unseen = (found.steps_by_bin(partition, unseen=u) for u in (not self.field.grouped, True))
        return Correction(seen, unseen, *about)

    def draws(self, groups: list[Hashable] | None = None, *, assume: Assume = "trust") -> Floats:
        """Joint draws of the prevalences, (groups, draws, K), after trust.

        Every draw is under one hypothesis for all groups, as probable as the estimate makes it: predictions are
        unchanged, label shift holds, or neither. Under label shift, draw ``s`` of every group uses the same draw of M,
        so that draws of two groups may be subtracted. They are made anew, and are the same, at every call.
        Of ``groups``, by default all. ``assume="label_shift"`` is the posterior if that assumption holds.
        """
        check_assume(assume)
        if groups is not None and not isinstance(groups, (list, tuple, np.ndarray)):
            raise InputTypeError(f"groups must be a list of groups, but got {groups!r:.60}.")
        named = self.groups if groups is None else groups
        at = np.arange(len(named)) if groups is None else np.array([self.row_of(g) for g in named], dtype=int)
        # In one order, each group once: a group asked for twice, or in another place, has the same draws.
        rows, back = np.unique(at, return_inverse=True)
        return np.asarray(_posteriors().draws(self, rows, assume)[back])

    def draws_together(self, rows: Ints, correlations: Floats, of: int) -> Floats:
        """Of categories: draws of a class in groups whose rows correlate (groups, groups), (groups, draws)."""
        order = np.argsort(rows)
        correlations = correlations[order[:, None], order]
        found = _posteriors().draws(self, rows[order], "trust", correlations, of)[..., of]
        return np.asarray(found[np.argsort(order)])

    @property
    def is_judged(self) -> bool:
        """Whether these are shares behind the values of a judge or a test."""
        return self.prior.get("name") == JUDGE

    @cached_property
    def judged(self) -> Judged:
        """What labelled rows say of the judge; where the prior is the caller's own there is none."""
        if not self.is_judged:
            raise InputError("This estimate is not of values, or was made with a prior of the caller's own.")
        return Judged.of(self.lab, self.field, design_effect=self.design_effect, seed=self.seed)

    @property
    def labels(self) -> FieldLabels | None:
        """What labelled rows of the field say; None where there are none."""
        return None if self.by_model is None else self.by_model.labels

    @property
    def rests_on_lab_groups(self) -> bool:
        """Whether labels of the lab's own groups enter the estimate."""
        return self.by_model is not None and self.by_model.lab_rows is not None

    @property
    def trust_before(self) -> Trust:
        """The trust without labels of the field."""
        before: Trust = self.trust if self.labels is None else self.labels.before
        return before

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior of the multilevel model, made anew."""
        found: Posterior = _posteriors().of_estimate(self, weighed=bool(self.field.labelled))
        return found

    @cached_property
    def open_posterior(self) -> Posterior:
        """The same with all hypotheses open, which further labels can decide between."""
        found: Posterior = self.posterior
        return found if self.field.labelled else _posteriors().of_estimate(self, weighed=True)

    @property
    def own_prior(self) -> Prior | None:
        """The prior, where it is at hand: one made of functions is in no file."""
        return self._prior

    def remembering(self, prior: Prior) -> Self:
        """The same with the prior itself at hand."""
        self._prior = prior
        return self

    def contrast(
        self,
        a: Hashable,
        b: Hashable,
        *,
        of: Hashable = None,
        kind: Literal["difference", "ratio"] = "difference",
        assume: Assume = "trust",
        level: float | None = None,
        pairs: Pairs | None = None,
    ) -> Interval:
        """How much more prevalent a class is in group ``a`` than in group ``b``, with an interval.

        The estimate is that of the table: the difference, or the ratio, of the two groups' estimates. The interval is
        from joint draws: what both groups share, the noise of M for one, mostly cancels, so it is narrower than the
        two groups' own intervals suggest.

        Parameters
        ----------
        a, b : two groups
        of : class, by default the last
        kind : "difference" or "ratio"
        assume : "trust", or "label_shift" for what URC says if the assumption holds
        level : probability content of the interval, by default that of the estimate
        pairs : of values, the items that both groups were judged on, from `fieldcal.pairs`: an item that is hard for
            one is hard for the other, which makes the interval of their difference narrower
        """
        return derived.contrast(self, a, b, of=of, kind=kind, assume=assume, level=level, pairs=pairs)

    def compare(
        self,
        reference: Hashable = ...,
        *,
        of: Hashable = None,
        pairs: Pairs | None = None,
        errors: float = 0.05,
        assume: Assume = "trust",
        level: float | None = None,
    ) -> Comparison:
        """Many differences at once: of all groups to a reference, or of every two, and what may be said of all of them.

        Each difference has an interval of its own, as from `contrast`, and one that holds together with those of
        all others (family-wise: from the largest standardised deviation of joint draws). Those that are *found* are as
        many of the surest as keep the expected share of wrong signs among them below ``errors`` (false discovery).

        Parameters
        ----------
        reference : the group that all others are compared with; by default every two groups are compared
        errors : the share of wrong signs that is expected among the differences found, at most
        of, pairs, assume, level : as in `contrast`
        """
        return derived.compare(self, reference, of=of, pairs=pairs, errors=errors, assume=assume, level=level)

    def shares(
        self,
        groups: list[Hashable] | None = None,
        *,
        of: Hashable = None,
        assume: Assume = "trust",
        level: float | None = None,
    ) -> tuple[Interval, ...]:
        """The prevalence of a class in each of several groups.

        The estimate is that of the table, and so is the interval at the estimate's own level. At another level, or if
        label shift is assumed, the interval is from the joint draws that `contrast` and `ranking` take. ``groups`` are
        by default all; ``of``, ``assume`` and ``level`` are as in `contrast`.
        """
        return derived.shares(self, groups, of=of, assume=assume, level=level)

    def ranking(
        self, *, of: Hashable = None, assume: Assume = "trust", pairs: Pairs | None = None
    ) -> Ranking:
        """How likely each group has the highest prevalence of a class: arguments as in `contrast`; they sum to one."""
        return derived.ranking(self, of=of, assume=assume, pairs=pairs)

    def poststratify(
        self, totals: Any, *, of: Hashable = None, assume: Assume = "trust", level: float | None = None
    ) -> Interval:
        """The prevalence of a class in a population made of these groups in other proportions, with an interval.

        The estimate is the weighted mean of those of the table; the interval is from joint draws.

        Parameters
        ----------
        totals : mapping from group to size, or (G,) sizes
        of, assume, level : as in `contrast`
        """
        return derived.poststratify(self, totals, of=of, assume=assume, level=level)

    def performance(
        self, group: Hashable = ..., *, assume: Assume = "trust"
    ) -> dict[str, dict[Hashable, Interval]]:
        """Rows, precision and recall of decisions by the largest prediction, per class, without labels.

        Predictions are those before recalibration: the model's, as calibrated where the lab is.

        Of every draw of the prevalences: the table of classes by bins that has the field's histogram and these
        prevalences, and is nearest to the lab's (raking); the lab says what is decided in each cell. If label shift
        holds that leaves recall as it is in the lab; if the model is right, precision within a bin. The rows
        of each class are those of the table's estimate.

        Parameters
        ----------
        group : the group to ask about; by default all of them together
        assume : as in `contrast`
        """
        return performance.performance(self, group, assume=assume)

    def __getitem__(self, group: Hashable) -> dict[Hashable, Interval]:
        """The share of each class in a group, with its interval: ``prev["Leeds"]``."""
        return derived.shares_of(self, self.row_of(group))

    def __contains__(self, group: Hashable) -> bool:
        return bool(group_keys.positions(self.groups, (group_keys.normalize(group),))[0] >= 0)

    def plot(self, **options: Any) -> Any:
        """The shares of all groups as a figure of matplotlib: `fieldcal.plots.forest`, with its options."""
        # Pictures are made of estimates, so plots import objects; here they are loaded when somebody asks.
        return importlib.import_module("fieldcal.plots").forest(self, **options)

    def to_frame(self, backend: str | None = None, *, wide: bool = False) -> Any:
        """One row per class of the whole field, then one per group and class, as a table of pandas, polars or pyarrow.

        Columns: scope ("whole" or "group"), group (null for the whole field; one per part of the key if keys are
        tuples), class, n, mean_prediction, urc, estimate, lower, upper, trust_between, trust_overall, lab_labels and
        field_labels (labelled rows of the group that the estimate rests on), status. One
        population has rows of the whole field only. The backend is by default the first that is installed.
        With ``wide=True`` a group has one row, and shares have a column for each class, ``estimate_<class>``.
        """
        check_options(wide=wide)
        table = self.to_dict()
        return frames.to_frame(frames.widened(table, self.classes) if wide else table, backend)

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns of `to_frame` as plain lists."""
        return frames.columns(self)

    def labelled_rows(self, where: Literal["lab", "field"]) -> list[float]:
        """How many labelled rows of each group the estimate rests on; with none of either, on the histogram alone."""
        rows = np.zeros(len(self.groups))
        if where == "lab" and self.by_model is not None and self.by_model.lab_rows is not None:
            rows = np.asarray(self.by_model.lab_rows, dtype=np.float64)
        if where == "field":
            for found in self.field.labelled.values():
                rows[found.at] += found.counts.sum(axis=(1, 2))
        return rows.tolist()

    def row_of(self, group: Hashable) -> int:
        """The place of a group."""
        at = int(group_keys.positions(self.groups, (group_keys.normalize(group),))[0])
        if at < 0:
            raise InputError(
                f"There is no group {group_keys.show(group)!r} among the {len(self.groups):,} of this estimate."
            )
        return at

    def interval_text(self, g: int | None, k: int) -> str:
        """The interval of one class in a group, or in the whole field, for people; empty where none was asked for."""
        lower, upper = (self.whole.lower, self.whole.upper) if g is None else (self.lower, self.upper)
        if lower is None or upper is None:
            return ""
        at = k if g is None else (g, k)
        return f"{lower[at]:.3f} – {upper[at]:.3f}"

    def shown_class(self) -> int:
        """The second of two classes, or the one for which most rows are corrected; if none are, that moved most."""
        if len(self.classes) == 2:
            return 1
        rows = np.asarray(self.n, dtype=np.float64) @ np.abs(self.estimate - self.mean_prediction)
        return int((rows if rows.any() else np.abs(self.whole.urc - self.lab.p_lab)).argmax())

    @property
    def shows_one_class(self) -> bool:
        """Whether a table of the groups has one line each: of two classes one says it all."""
        return self.field.grouped and len(self.classes) == 2

    def shown(self) -> list[tuple[Hashable, int | None, int]]:
        """The lines of `table`: what each is called, its group's row (None: the whole field) and its class's column."""
        moved = show.largest(np.abs(self.whole.urc - self.lab.p_lab), show.SHOWN_CLASSES)
        classes = [1] if self.shows_one_class else sorted(moved)
        if not self.field.grouped:
            return [(self.classes[k], 0, k) for k in classes]
        fit = 1 if len(classes) > _SHOWN_LINES else _SHOWN_LINES // len(classes)
        at = show.largest(self.n, min(fit, _SHOWN_GROUPS))
        lines: list[tuple[Hashable, int | None]] = [("whole field", None), *((self.groups[g], g) for g in at)]
        return [(name, g, k) for name, g in lines for k in classes]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Head and rows for people: the whole field and the largest groups, every class of more than two."""
        interval = "" if self.level is None else f"{self.level:.0%} interval"
        first = [self.words()[0], "class"] if self.field.grouped else ["class"]
        names = ["mean prediction", "under label shift", "estimate"]
        if self.is_judged:
            names[0], names[2] = "as judged", "share"
        head = [*first, "n", *names, interval, "trust", "status"]
        lines = [self._line(*line) for line in self.shown()]
        left_out = {"class"} if self.shows_one_class else set()
        if self.is_judged:  # nothing is assumed, and no trust is asked for
            left_out |= {"under label shift", "trust"}
        kept = [i for i, title in enumerate(head) if title not in left_out]
        return [head[i] for i in kept], [[line[i] for i in kept] for line in lines]

    def _line(self, name: Hashable, g: int | None, k: int) -> list[str]:
        held, at = (self.whole, k) if g is None else (self, (g, k))
        shares = (held.mean_prediction[at], held.urc[at], held.estimate[at])
        n, trust, status = np.sum(self.n), self.trust_overall, ""
        if g is not None:
            n, trust = self.n[g], self.trust_between
            status = show.status(self.status[g])
        names = [show.name(name), show.name(self.classes[k])] if self.field.grouped else [show.name(name)]
        numbers = [show.amount(n), *(f"{share:.3f}" for share in shares), self.interval_text(g, k)]
        return [*names, *numbers, f"{trust:.2f}", status]

    def words(self) -> tuple[str, str]:
        """What a group is called, and several are."""
        return ("slice", "slices") if self.is_judged else ("group", "groups")

    def title(self) -> str:
        """What the table is about, in one line."""
        rows = f"{float(np.sum(self.n)):,.0f} rows"
        what = "Share" if self.is_judged else "Prevalence"
        if not self.field.grouped:
            return f"{'Shares behind the values' if self.is_judged else what} in one population, {rows}"
        classes = f"{len(self.classes):,} {self.lab.outcome.plural}"
        of = group_keys.show(self.classes[1], width=30) if self.shows_one_class else classes
        return f"{what} of {of} in {len(self.groups):,} {self.words()[1]}, {rows}"

    def __repr__(self) -> str:
        head, rows = self.table()
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in [head, *rows]]
        more = [f"  {note}" for note in show.prevalence_notes(self) if note]
        return "\n".join([self.title(), *lines, *more, repr(self.verdict)])

    def __rich__(self) -> Group:
        return show.stacked([*show.prevalence_parts(self), *show.verdict_parts(self.verdict)])

    def _repr_html_(self) -> str:
        return show.prevalence_sheet(self).page() + show.verdict_page(self.verdict)
