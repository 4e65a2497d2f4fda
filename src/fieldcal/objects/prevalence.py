"""Prevalence: estimated class prevalences per group."""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import PrivateAttr, model_validator

from fieldcal.core.goodness_of_fit import ShiftExplained
from fieldcal.core.priors import Prior
from fieldcal.core.reweight import Step, steps_of
from fieldcal.core.trust import Trust
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import break_even, derived, group_keys, performance, prevalence_table, show
from fieldcal.objects.artefact import (
    LARGEST,
    Artefact,
    Learnt,
    Numbers,
    Texts,
    check_shapes,
    record,
)
from fieldcal.objects.break_even import BreakEven
from fieldcal.objects.derived import Assume, Comparison, Interval, Pairs, Ranking, check_assume
from fieldcal.objects.field import Field
from fieldcal.objects.judged import Judged, step_to_shares
from fieldcal.objects.lab import Lab
from fieldcal.objects.over_time import OverTime
from fieldcal.objects.prevalence_parts import (
    PREVALENCE,
    SHARES,
    Correction,
    FieldLabels,
    Fit,
    FromModel,
    WholeField,
    Words,
)
from fieldcal.objects.verdict import Verdict
from fieldcal.options import check_options
from fieldcal.types import Floats, Ints, Keys, Shape

if TYPE_CHECKING:
    from rich.console import Group

    from fieldcal.core.field_posterior import ModelPosterior


#: The posterior of categories has this name in place of a prior's.
JUDGE = "judge"


def _posteriors() -> Any:
    """`verbs.posteriors`, imported late because it imports objects."""
    return importlib.import_module("fieldcal.verbs.posteriors")


class Prevalence(Artefact):
    """Class prevalences per group: mean prediction, estimate under label shift, and the estimate with its interval.

    Made by `fieldcal.estimate`; passed to `fieldcal.recalibrate`.

    Attributes
    ----------
    design_effect : variance of the field's counts relative to independent rows
    urc : (G, K) estimate under label shift (unsupervised recalibration, URC), whatever the trust
    estimate : (G, K) the prevalence: the mean prediction at trust 0, `urc` at trust 1; with labels, the posterior of
        the multilevel model
    lower, upper : (G, K) interval of ``estimate`` at ``level``
    whole : the same for the field as one population: ``whole.estimate`` and so on, each (K,)
    status : (G,) "ok", or cautions about the group
    verdict : whether to use the estimate, and why
    fit : convergence and goodness of fit

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
    ((6, 16), (3, 22))
    >>> print(prev[0][1])
    0.107 (90% interval 0.085 to 0.128; verdict: use with care)
    """

    kind: ClassVar[str] = "prevalence"

    lab: Lab
    field: Field
    prior: dict[str, Any]  # its name and parameters
    learnt: Learnt  # its hyperparameters, as estimated from the field
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
        """Restore the width of tables without rows, which JSON loses."""
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
        model = self.by_model
        if model is not None and not model.fits(n_groups=G, n_bins=self.lab.n_bins, n_classes=K):
            raise ValueError("by_model does not fit the groups, bins and classes")
        if len(self.status) != G:
            raise ValueError("status does not fit the groups")
        return self

    @property
    def groups(self) -> Keys:
        """The G group keys; the single key None without groups."""
        return self.field.groups

    @property
    def classes(self) -> Keys:
        """The K classes, in the order of the columns."""
        return self.lab.classes

    @property
    def n(self) -> NDArray[Any]:
        """(G,) rows per group, or sums of weights."""
        return self.field.n

    @property
    def mean_prediction(self) -> Floats:
        """(G, K) mean prediction."""
        return self.field.mean_prediction

    @property
    def trust_overall(self) -> float:
        """The probability that label shift explains the change of the whole field."""
        return float(self.trust.overall)

    @property
    def trust_between(self) -> float:
        """The probability that label shift explains the differences between groups; `trust_overall` without groups."""
        return float(self.trust.between)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Class weights applied to the predictions of every group: at most two steps, each (K,) or (G, K).

        Those of ``shape="tilt"``; `correction` also has those by bin.
        """
        if self.is_judged and self.field.grouped:
            return (step_to_shares(self.lab, self.field.V, self.estimate),)
        if self.is_judged or (self.by_model is not None and not self.field.grouped):
            return self.steps_unseen
        if self.by_model is not None:
            return self.by_model.steps(unseen=False)
        return self._steps(self.urc, between=self.trust.between, grouped=self.field.grouped)

    @cached_property
    def steps_unseen(self) -> tuple[Step, ...]:
        """`steps` for an unknown group, which follows the whole field."""
        if self.is_judged:
            total = self.field.V.sum(axis=0, dtype=np.float64)
            step = step_to_shares(self.lab, total[None], self.whole.estimate[None])
            return (replace(step, weights=step.weights[0]),)
        if self.by_model is not None:
            return self.by_model.steps(unseen=True)
        return self._steps(self.whole.urc[None], between=0.0, grouped=False)

    def _steps(self, urc: Floats, *, between: float, grouped: bool) -> tuple[Step, ...]:
        whole, overall = self.whole.urc, self.trust.overall
        return steps_of(
            urc=urc, whole=whole, p_lab=self.lab.p_lab, overall=overall, between=between, grouped=grouped
        )

    @property
    def untouched(self) -> bool:
        """Whether predictions stay as they are: neither corrected nor calibrated."""
        return not self.steps and self.lab.calibration_map is None

    @property
    def only_calibrated(self) -> bool:
        """Whether predictions are calibrated on the lab, but not corrected for the field."""
        return not self.steps and self.lab.calibration_map is not None

    def shape_of(self, shape: Shape) -> Literal["tilt", "bins"]:
        """The shape that ``shape="auto"`` selects: bins if the lab's groups correct the calibration that they share."""
        check_options(shape=shape)
        if shape != "auto":
            return shape
        return "bins" if self.rests_on_lab_groups and self.lab.partition.takes_probabilities else "tilt"

    def correction(self, shape: Shape = "auto") -> Correction:
        """The steps that `recalibrate` applies."""
        shape = self.shape_of(shape)
        about = (self.groups, self.field.grouped, len(self.classes))
        if shape == "tilt":
            return Correction(self.steps, self.steps_unseen, *about)
        if self.is_judged:
            raise InputError(
                f"{option('shape', 'bins')} is for probabilities: each category has its own class probabilities "
                "anyway. Leave it out."
            )
        if self.by_model is None:
            raise InputError(
                f"{option('shape', 'bins')} corrects predictions bin by bin, which needs labels of the field or of "
                "the lab's groups, but none were counted. Label some rows (see fieldcal plan), count them with their "
                "labels and estimate again; or leave it out."
            )
        model, partition = self.by_model, self.lab.partition
        seen, unseen = (model.steps_by_bin(partition, unseen=u) for u in (not self.field.grouped, True))
        return Correction(seen, unseen, *about)

    def draws(self, groups: list[Hashable] | None = None, *, assume: Assume = "trust") -> Floats:
        """Joint draws of the prevalences, (groups, draws, K), from the posterior of `estimate`.

        Each draw assumes one hypothesis for all groups, with its posterior probability: unchanged predictions, label
        shift, or neither. Under label shift, draw ``s`` of every group uses the same draw of M, so draws of two groups
        may be subtracted. Repeated calls return the same draws. ``groups``: by default all. ``assume="label_shift"``
        returns the posterior under that assumption.
        """
        check_assume(assume)
        if groups is not None and not isinstance(groups, (list, tuple, np.ndarray)):
            raise InputTypeError(f"groups must be a list of groups, but got {groups!r:.60}.")
        named = self.groups if groups is None else groups
        at = np.arange(len(named)) if groups is None else np.array([self.row_of(g) for g in named], dtype=int)
        # In a fixed order, each group once: a group that is repeated or moved has the same draws.
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
        """Whether the estimate is of shares behind the categories of a judge or a test."""
        return self.prior.get("name") == JUDGE

    @property
    def words(self) -> Words:
        """What people call its parts."""
        return SHARES if self.is_judged else PREVALENCE

    @cached_property
    def judged(self) -> Judged:
        """What labelled rows show about the judge, computed again; unavailable with a custom prior."""
        if not self.is_judged:
            raise InputError("This estimate is not of values, or has a custom prior.")
        return Judged.of(self.lab, self.field, design_effect=self.design_effect, seed=self.seed)

    @property
    def labels(self) -> FieldLabels | None:
        """Summary of the labelled field rows; None without any."""
        return None if self.by_model is None else self.by_model.labels

    @property
    def rests_on_lab_groups(self) -> bool:
        """Whether labels of the lab's own groups enter the estimate."""
        return self.by_model is not None and self.by_model.lab_rows is not None

    @property
    def trust_before(self) -> Trust:
        """The trust before field labels."""
        before: Trust = self.trust if self.labels is None else self.labels.before
        return before

    @cached_property
    def over_time(self) -> OverTime | None:
        """Shares of every group and of the whole field in every window; None of a field without windows.

        Fields that were counted with ``time`` and ``every``, or cut with ``field.over``, have windows. Shares are
        smoothed: the changes of a group are followed over its windows, around the level of its estimate. The result is
        computed from lab and field when it is first asked for.
        """
        if self.field.every is None:
            return None
        found: OverTime | None = importlib.import_module("fieldcal.verbs.over_time").over_time(self)
        return found

    @cached_property
    def posterior(self) -> ModelPosterior:
        """The posterior of the multilevel model, computed again."""
        posterior: ModelPosterior = _posteriors().of_estimate(self, weighed=bool(self.field.labelled))
        return posterior

    @cached_property
    def open_posterior(self) -> ModelPosterior:
        """The posterior with all hypotheses open, for planning with further labels."""
        posterior: ModelPosterior = self.posterior
        return posterior if self.field.labelled else _posteriors().of_estimate(self, weighed=True)

    @property
    def own_prior(self) -> Prior | None:
        """The prior object if available: a prior made of functions cannot be saved."""
        return self._prior

    def remembering(self, prior: Prior) -> Self:
        """The same estimate with its prior object attached."""
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
        """The difference or ratio of a class's prevalence between groups ``a`` and ``b``, with an interval.

        The point is that of the two groups' estimates. The interval is from joint draws: errors that both groups
        share, such as those of M, mostly cancel, so it is narrower than the two groups' own intervals suggest.

        Parameters
        ----------
        a, b : two groups
        of : class, by default the last
        kind : "difference" or "ratio"
        assume : "trust", or "label_shift" for the result under that assumption
        level : probability content of the interval, by default that of the estimate
        pairs : for categories, the items that both groups were judged on, from `fieldcal.pairs`: errors on shared items
            are correlated, which makes the interval of the difference narrower
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
        """Differences of all groups to a reference, or of all pairs, with control of errors over all of them.

        Each difference has a marginal interval, as from `contrast`, and a simultaneous one (family-wise, from the
        largest standardised deviation of joint draws). *Found* are as many of the most certain as keep the expected
        share of wrong signs among them below ``errors`` (false discovery rate).

        Parameters
        ----------
        reference : the group that all others are compared with; by default all pairs are compared
        errors : largest expected share of wrong signs among the differences found
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

        Point and interval are those of the table. At another level, or under label shift, the interval is from the
        joint draws that `contrast` and `ranking` use. ``groups``: by default all; ``of``, ``assume`` and ``level`` as
        in `contrast`.
        """
        return derived.shares(self, groups, of=of, assume=assume, level=level)

    def ranking(
        self, *, of: Hashable = None, assume: Assume = "trust", pairs: Pairs | None = None
    ) -> Ranking:
        """The probability of each group to have the highest prevalence of a class; arguments as in `contrast`."""
        return derived.ranking(self, of=of, assume=assume, pairs=pairs)

    def break_even(
        self,
        *,
        share_above: float | None = None,
        share_below: float | None = None,
        group: Hashable = ...,
        contrast: tuple[Hashable, Hashable] | None = None,
        of: Hashable = None,
        level: float | None = None,
    ) -> BreakEven:
        """The share of rows that must be scored differently than in the lab before a conclusion can be wrong.

        By default the conclusions are that the share of every group, and of the whole field, is above or below that of
        the lab, and that of every group above or below that of the whole field, as the estimate is. For categories only
        the latter.

        Parameters
        ----------
        share_above, share_below : the conclusion that the share is above, or below, this number
        group : one group; by default all of them and the whole field
        contrast : the conclusion that the share is above (below) in the first of these two groups
        of : class, by default the last
        level : probability content of the interval whose lower end is the lower bound, by default that of the estimate

        Examples
        --------
        >>> import fieldcal
        >>> prev = fieldcal.datasets.example().prev
        >>> prev.break_even(group=1, share_above=0.3).rows.round(2).tolist()
        [0.17]
        """
        return break_even.break_even(
            self,
            share_above=share_above,
            share_below=share_below,
            group=group,
            contrast=contrast,
            of=of,
            level=level,
        )

    def poststratify(
        self, totals: Any, *, of: Hashable = None, assume: Assume = "trust", level: float | None = None
    ) -> Interval:
        """The prevalence of a class in a population with other group sizes, with an interval.

        The point is the weighted mean of the group estimates; the interval is from joint draws.

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

        Predictions are those before recalibration: the model's, or as calibrated if the lab is.

        For every draw of the prevalences, the lab's class-by-bin table is raked to the field's histogram and these
        prevalences; the lab's decisions in each cell then give the counts. Under label shift this leaves recall as in
        the lab; under unchanged predictions, precision within a bin. The rows of each class are those of the table's
        estimate.

        Parameters
        ----------
        group : by default all groups together
        assume : as in `contrast`
        """
        return performance.performance(self, group, assume=assume)

    def __getitem__(self, group: Hashable) -> dict[Hashable, Interval]:
        """The share of each class in a group, with its interval: ``prev["Leeds"]``."""
        return derived.shares_of(self, self.row_of(group))

    def __contains__(self, group: Hashable) -> bool:
        return bool(group_keys.positions(self.groups, (group_keys.normalize(group),))[0] >= 0)

    def plot(self, **options: Any) -> Any:
        """Forest plot of all groups, a matplotlib figure; options as in `fieldcal.plots.forest`."""
        # Imported late, because plots import objects.
        return importlib.import_module("fieldcal.plots").forest(self, **options)

    def to_frame(self, backend: str | None = None, *, wide: bool = False) -> Any:
        """One row per class of the whole field, then one per group and class, as a table of pandas, polars or pyarrow.

        Columns: scope ("whole" or "group"), group (null for the whole field; one per part of the key if keys are
        tuples), class, n, mean_prediction, urc (the estimate under label shift), estimate, lower, upper, break_even and
        break_even_lower (of the share being above or below that in the lab, see `break_even`), trust_between,
        trust_overall, lab_labels and field_labels (labelled rows of the group behind the estimate), status. A field
        without groups has rows of the whole field only. The backend is by default the first that is
        installed. With ``wide=True`` a group has one row, and shares have a column for each class,
        ``estimate_<class>``. Of a field with windows, rows of every window follow, with window_start and window_end
        (null for the whole time), and filtered, the estimate from the windows up to each.
        """
        check_options(wide=wide)
        table = self.to_dict()
        return prevalence_table.to_frame(
            prevalence_table.widened(table, self.classes) if wide else table, backend
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns of `to_frame` as plain lists."""
        return prevalence_table.columns(self)

    def row_of(self, group: Hashable) -> int:
        """The position of a group."""
        at = int(group_keys.positions(self.groups, (group_keys.normalize(group),))[0])
        if at < 0:
            raise InputError(
                f"There is no group {group_keys.show(group)!r} among the {len(self.groups):,} of this estimate."
            )
        return at

    def __repr__(self) -> str:
        return prevalence_table.text(self)

    def __rich__(self) -> Group:
        return show.stacked([*prevalence_table.sheet(self).parts(), *show.verdict_parts(self.verdict)])

    def _repr_html_(self) -> str:
        return prevalence_table.sheet(self).page() + show.verdict_page(self.verdict)
