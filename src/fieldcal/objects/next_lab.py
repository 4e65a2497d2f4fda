"""Merging two labs, and extending a lab by the labelled rows of a field."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.response import whole
from fieldcal.errors import InputError, TrustWarning, Word, option
from fieldcal.objects import group_keys, lab_groups
from fieldcal.objects.artefact import SCORE_UNIT
from fieldcal.objects.batches import Labelled, added
from fieldcal.objects.field import Field
from fieldcal.objects.lab_groups import Cells, GroupCounts
from fieldcal.options import check_kind
from fieldcal.storage import canonical
from fieldcal.types import Floats, Ints, Keys

if TYPE_CHECKING:
    from fieldcal.objects.lab import Lab

#: Results per lab group. They need the rows of the groups, so they cannot be added up.
_OF_GROUPS = ("rehearsal", "homogeneity", "bias", "bias_groups")


def merged(one: Lab, two: Lab) -> dict[str, Any]:
    """The fields of a merged lab: sums, and the group results of one of the two."""
    _check_mergeable(one, two)
    F = _sum(one.F, two.F)
    return {
        **_kept(one),
        **(of_given_bins(F) if not one.partition.takes_probabilities else _added_scores(one, two)),
        **_of_groups(one, two),
        **_merged_groups(one, two),
        "F": F,
        "weight_squares": _sum(one.weight_squares, two.weight_squares),
        "n": one.n + two.n,
        "left_out": _sum_or_none(one.left_out, two.left_out),
        "clipped": one.clipped + two.clipped,
        "columns": one.columns or two.columns,
    }


def extended(lab: Lab, field: Field) -> dict[str, Any]:
    """The fields of a lab extended by labelled field rows, each design by its information."""
    check_kind("field", field, Field)
    if not field.is_of(lab):
        raise InputError(
            "This field was counted with another lab, with other bins. Count its rows with this lab."
        )
    if not field.labelled:
        raise InputError(
            f"This field has no labelled rows, so there is nothing to add to the lab. Count it with {option('y')}."
        )
    _refuse_own_rows(lab, field)
    groups, places = _groups_with_labels(lab, field)
    cells = _cells_at(lab, groups)
    rows = _WeightedRows(lab.F.astype(np.float64), lab.weight_squares.astype(np.float64), cells)
    by_design = {design: _Labels.of(field, labelled, places) for design, labelled in field.labelled.items()}
    if "random" in by_design:
        rows = rows.with_random(by_design["random"])
    if "by_score" in by_design:
        rows = rows.with_stratified(by_design["by_score"], field)
    if "by_class" in by_design:
        rows = rows.with_given_classes(by_design["by_class"], of_classes=lab.design == "by_class")
    F = whole(rows.F)
    return {
        **_kept(lab),
        **(of_given_bins(F) if not lab.partition.takes_probabilities else _at_bin_means(lab, F)),
        **{name: getattr(lab, name) for name in (*_OF_GROUPS, "left_out", "clipped", "columns")},
        "groups": groups,
        "by_group": _by_group(lab, groups, cells, rows.cells),
        "F": F,
        "weight_squares": whole(rows.squares),
        "n": lab.n + int(np.ceil(sum(labels.rows.sum() for labels in by_design.values()))),
    }


def _groups_with_labels(lab: Lab, field: Field) -> tuple[Keys, Ints | None]:
    """Groups of the extended lab, and the positions of the field's groups among them; None without groups."""
    if not lab.groups or not field.grouped:
        return lab.groups, None
    at = sorted({int(g) for rows in field.labelled.values() for g in rows.at})
    labelled = tuple(field.groups[g] for g in at)
    groups = group_keys.union(lab.groups, labelled)
    places = np.full(len(field.groups), -1, dtype=np.intp)
    places[at] = group_keys.positions(groups, labelled)
    return groups, places


def has_labels_of(lab: Lab, field: Field) -> bool:
    """Whether a field of categories has the same labelled rows as the lab, judged by the counts of classes and bins."""
    labelled = None if lab.design is None else field.labelled.get(lab.design)
    return labelled is not None and bool(np.allclose(labelled.counts.sum(axis=0), lab.F))


def _refuse_own_rows(lab: Lab, field: Field) -> None:
    """Refuse labels of a field of categories that are already in the lab."""
    if has_labels_of(lab, field):
        raise InputError(
            "The labelled rows of this field are those that the lab was learnt from: in the extended lab they "
            f"would count twice. Extend it by later labels, counted with {option('only_labels', True)}, or "
            "learn from all labelled rows together."
        )


@dataclass(frozen=True)
class _Labels:
    weights: Floats  # (K, m)
    squares: Floats  # (K, m)
    rows: Floats  # (K, m) effective sample sizes
    weight_cells: Cells | None  # weights and rows by group, class and bin; None without groups
    row_cells: Cells | None

    @classmethod
    def of(cls, field: Field, labelled: Labelled, places: Ints | None) -> _Labels:
        V, squares = (table[labelled.at].astype(np.float64) for table in (field.V, field.weight_squares))
        everywhere = np.full(V.shape, _weight_of_a_row(field))  # if only labels were counted
        one_row = np.divide(squares, V, out=everywhere, where=V > 0)[:, None, :]
        counts = labelled.counts.astype(np.float64)
        rows = counts / one_row
        cells = [None if places is None else Cells.of_labels(labelled, of, places) for of in (counts, rows)]
        return cls(counts.sum(axis=0), (counts * one_row).sum(axis=0), rows.sum(axis=0), *cells)


@dataclass(frozen=True)
class _WeightedRows:
    """Lab rows as weights by class and bin, (K, m), their squares by class, (K,), and weights by group."""

    F: Floats
    squares: Floats
    cells: Cells | None = None

    def with_random(self, labels: _Labels) -> _WeightedRows:
        """Adds a random sample, which is like the lab's own rows."""
        cells = self._cells(labels.weight_cells)
        return _WeightedRows(self.F + labels.weights, self.squares + labels.squares.sum(axis=1), cells)

    def with_stratified(self, labels: _Labels, field: Field) -> _WeightedRows:
        """Adds rows chosen by score, weighted to the field's histogram like strata of a sample.

        A labelled row of bin j represents ``V_j / n_j`` rows. Bins without a label keep the lab's class shares and add
        no information: together they count as many rows as the labelled ones are worth, times the share of the field
        in their bins. They belong to no group.

        References
        ----------
        Horvitz, D. and Thompson, D. (1952). A generalization of sampling without replacement from a finite universe.
        JASA 47.
        """
        V = field.V.sum(axis=0, dtype=np.float64)
        share, n = V / max(V.sum(), 1e-300), labels.rows.sum(axis=0)
        known = (n > 0) & (V > 0)
        if not known.any():
            raise InputError(
                "Rows that were chosen by score are weighted by the field's histogram, but it has no rows in their "
                "bins. Count the rows of the field too, and merge: field + labels."
            )
        covered = share[known].sum()
        size = covered**3 / (share[known] ** 2 / n[known]).sum()
        classes = np.where(known, labels.rows / np.maximum(n, 1e-300), class_shares(self.F))
        weight = _weight_of_a_row(field)
        more = weight * size * share * classes
        by_bin = np.where(known, weight * size * share / np.maximum(n, 1e-300), 0.0)
        cells = self._cells(labels.row_cells, new=by_bin)
        return _WeightedRows(self.F + more, self.squares + weight * more.sum(axis=1), cells)

    def with_given_classes(self, labels: _Labels, *, of_classes: bool) -> _WeightedRows:
        """Adds rows chosen by class: they inform the bins of a class, while its share in the lab stays.

        Groups get these rows only if the lab's rows were chosen by class too. Otherwise the class shares of a group
        would reflect the choice.
        """
        total, b = self.F.sum(axis=1), labels.rows.sum(axis=1)
        n = total**2 / self.squares
        pooled = self.F * (n / total)[:, None] + labels.rows
        scaled = pooled * (total / (n + b))[:, None]
        own, new = np.where(b > 0, n / (n + b), 1.0), total / (n + b)
        cells = (
            self._cells(labels.row_cells, own=own[:, None], new=new[:, None]) if of_classes else self.cells
        )
        return _WeightedRows(
            np.where((b > 0)[:, None], scaled, self.F),
            np.where(b > 0, total**2 / (n + b), self.squares),
            cells,
        )

    def _cells(self, labels: Cells | None, *, own: Any = 1.0, new: Any = 1.0) -> Cells | None:
        """Cells of the lab and of labelled rows together, with factors by class and bin."""
        if self.cells is None:
            return None
        cells = self.cells.scaled(own)
        return cells if labels is None else cells.plus(labels.scaled(new))


def _weight_of_a_row(field: Field) -> float:
    total = float(field.V.sum(dtype=np.float64))
    return float(field.weight_squares.sum(dtype=np.float64)) / total if total > 0 else 1.0


def class_shares(F: NDArray[Any]) -> Floats:
    """Class shares in each bin, (K, m); those of the whole lab for an empty bin."""
    overall = np.tile(F.sum(axis=1, keepdims=True) / F.sum(), F.shape[1])
    rows = np.broadcast_to(F.sum(axis=0), F.shape)
    return np.asarray(np.divide(F, rows, out=overall, where=rows > 0))


def _kept(lab: Lab) -> dict[str, Any]:
    return {
        name: getattr(lab, name)
        for name in ("outcome", "partition", "smoothing", "design", "calibration_map")
    }


# Fields that are computed from F


def _added_scores(one: Lab, two: Lab) -> dict[str, Any]:
    return {
        "bin_scores": _sum(one.bin_scores, two.bin_scores),
        "decisions": _sum(one.decisions, two.decisions),
        "loss": None if one.loss is None or two.loss is None else _sum(one.loss, two.loss),
    }


def _at_bin_means(lab: Lab, F: NDArray[Any]) -> dict[str, Any]:
    """Predictions of labelled rows, known by bin only: the lab's mean of the bin stands in."""
    more, means = F - lab.F, lab.bin_means
    scores = lab.bin_scores + np.rint(more.sum(axis=0)[:, None] * means / SCORE_UNIT)
    with np.errstate(divide="ignore"):
        cost = np.where(more != 0, -np.log(means.T), 0.0)
    loss = (more * cost).sum(axis=1) / SCORE_UNIT
    known = lab.loss is not None and np.isfinite(loss).all()
    return {
        "bin_scores": whole(np.maximum(scores, 0)),
        "decisions": whole(F[:, :, None] * _decided(lab)),
        "loss": whole(np.maximum(np.rint(lab.loss + loss), 0)) if known else None,
    }


def _cells_at(lab: Lab, groups: Keys) -> Cells | None:
    """The lab's rows by group, class and bin, with the groups at their new positions."""
    if lab.by_group is None:
        return None
    cells = lab_groups.cells_of(lab.by_group, (len(lab.F), lab.n_bins))
    return cells.moved(group_keys.positions(groups, lab.groups))


def _by_group(lab: Lab, groups: Keys, before: Cells | None, after: Cells | None) -> GroupCounts | None:
    """Counts by group of the extended lab; predictions of new rows are the means of their bins."""
    if lab.by_group is None or before is None or after is None:
        return None
    sums: NDArray[Any] | None = None
    if (own := lab.by_group.prediction_sums) is not None:
        sums = np.zeros((len(groups), len(lab.F)))
        sums[group_keys.positions(groups, lab.groups)] = own
        more = after.sums(len(groups), lab.bin_means) - before.sums(len(groups), lab.bin_means)
        sums = whole(np.maximum(sums + np.rint(more / SCORE_UNIT), 0))
    return GroupCounts(cells=after.at, rows=whole(after.rows), prediction_sums=sums)


def _decided(lab: Lab) -> Floats:
    """Shares of the largest prediction given class and bin, (K, m, K); of the bin, or its mean, without such rows."""
    K = len(lab.F)
    own, of_bin = lab.decisions.astype(np.float64), lab.decisions.sum(axis=0, dtype=np.float64)
    at_mean = np.eye(K)[lab.bin_means.argmax(axis=1)]
    rows = of_bin.sum(axis=1, keepdims=True)
    of_bin = np.divide(of_bin, rows, out=at_mean, where=rows > 0)
    rows = own.sum(axis=2, keepdims=True)
    return np.asarray(np.divide(own, rows, out=np.tile(of_bin, (K, 1, 1)), where=rows > 0))


def of_given_bins(F: NDArray[Any]) -> dict[str, Any]:
    """Fields of a lab of bin ids, where the class shares of the bin stand in for predictions."""
    shares = class_shares(F.astype(np.float64))
    units = np.floor(shares.T / SCORE_UNIT + 0.5).astype(np.int64)
    decided = np.eye(len(F), dtype=np.int64)[shares.argmax(axis=0)]
    cost = np.floor(-np.log(np.where(F > 0, shares, 1.0)) / SCORE_UNIT + 0.5).astype(np.int64)
    return {
        "bin_scores": whole(F.sum(axis=0)[:, None] * units),
        "decisions": whole(F[:, :, None] * decided),
        "loss": whole((F * cost).sum(axis=1)),
    }


def _sum(one: NDArray[Any], two: NDArray[Any]) -> NDArray[Any]:
    return added(len(one), [slice(None)] * 2, [one, two])


def _sum_or_none(one: NDArray[Any] | None, two: NDArray[Any] | None) -> NDArray[Any] | None:
    return _sum(one, two) if one is not None and two is not None else one if two is None else two


def _of_groups(one: Lab, two: Lab) -> dict[str, Any]:
    """Group results of the lab whose rehearsal had more rows, in whatever order labs are merged."""
    if one.rehearsal is not None and two.rehearsal is not None:
        warnings.warn(
            f"Both labs were rehearsed, with {one.rehearsal.n_rows:,} and {two.rehearsal.n_rows:,} rows. A rehearsal "
            "needs the rows themselves, so that the larger one is kept. Learn from all rows together for one of all "
            "groups.",
            TrustWarning,
            stacklevel=4,
        )
    larger = max(one, two, key=_rehearsed)
    return {name: getattr(larger, name) for name in _OF_GROUPS}


def _merged_groups(one: Lab, two: Lab) -> dict[str, Any]:
    """Groups and their counts if both labs have them: otherwise the group of some rows is unknown."""
    if not one.groups or not two.groups:
        return {}
    groups = group_keys.union(one.groups, two.groups)
    parts = [(lab.groups, lab.by_group) for lab in (one, two) if lab.by_group is not None]
    counts = lab_groups.merged(groups, parts, one.F.shape) if len(parts) == 2 else None
    return {"groups": groups, "by_group": counts}


def _rehearsed(lab: Lab) -> tuple[int, int, bytes]:
    """Sort key of a lab by the size of its rehearsal; ties are broken by its content, so that the order is total."""
    content = canonical(lab.model_dump(mode="json", include=set(_OF_GROUPS)))
    if lab.rehearsal is not None:
        return lab.rehearsal.n_rows, lab.rehearsal.n_groups, content
    return 0, 0, content


# Checks that labs can be merged


def _read_alike(one: Lab, two: Lab) -> bool:
    maps = [lab.model_dump(mode="json", include={"calibration_map"}) for lab in (one, two)]
    return maps[0] == maps[1]


def _check_mergeable(one: Lab, two: Lab) -> None:
    if one.outcome != two.outcome:
        raise InputError(
            f"These labs have different outcomes: {one.outcome.plural} {one.classes!r:.80} and "
            f"{two.outcome.plural} {two.classes!r:.80}. Learn both with the same."
        )
    if one.partition.spec() != two.partition.spec():
        raise InputError(
            f"These labs have different bins, {one.n_bins} and {two.n_bins}, or other edges. Learn the second "
            f"with {option('partition')} of the first."
        )
    if one.design != two.design:
        raise InputError(
            f"The labelled rows of these labs have different designs, {one.design!r} and {two.design!r}, and "
            f"carry different information. Learn both with the same {option('design')}."
        )
    if not _read_alike(one, two):
        raise InputError(
            "These labs have different calibrations: one has none, or their maps differ, so that "
            "their mean predictions do not add up. Learn the second with the map of the first: "
            f"{option('calibration', Word('lab.calibration_map'), flag='calibration LAB.json')}."
        )
    if one.smoothing != two.smoothing:
        raise InputError(
            f"These labs are smoothed by {one.smoothing:g} and {two.smoothing:g} rows per class. Learn both with the "
            f"same {option('smoothing')}."
        )
    if one.columns is not None and two.columns is not None and one.columns != two.columns:
        raise InputError(
            "These labs were learnt from columns of different names, so that later steps would not know which to read. "
            "Rename the columns of one table as those of the other, and learn again."
        )
