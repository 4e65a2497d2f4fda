"""Whether two fields can be merged, and in which words not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fieldcal.errors import InputError
from fieldcal.objects import group_keys
from fieldcal.types import Keys

if TYPE_CHECKING:
    from fieldcal.objects.field import Field


def check_mergeable(one: Field, two: Field) -> None:
    """Refuse fields that do not belong together, or that share a batch."""
    check_alike(one, two)
    twice = sorted(set(one.batch_ids) & set(two.batch_ids))
    if twice:
        raise InputError(
            f"The batch {twice[0]!r:.60} is in both fields: merging would count its rows twice. Leave one out."
        )


def check_alike(one: Field, two: Field) -> None:
    """Refuse fields that were not counted the same way."""
    differences = []
    if one.classes != two.classes:
        differences.append(f"classes {one.classes!r:.80} and {two.classes!r:.80}")
    if one.n_bins != two.n_bins:
        differences.append(f"{one.n_bins} and {two.n_bins} bins")
    if one.lab != two.lab:
        differences.append(f"labs {one.lab[:8]}… and {two.lab[:8]}…")
    if differences:
        raise InputError(
            f"These counts were made with different labs: {'; '.join(differences)}. Count again with one lab."
        )
    if one.grouped != two.grouped:
        raise InputError("One of these fields has groups and the other has none. Count both the same way.")
    if one.by != two.by:
        _check_columns(one, two)


def strays(by: tuple[str, ...], groups: Keys) -> list[Any]:
    """Keys that do not have one part for each of several columns."""
    if len(by) < 2:
        return []
    return [key for key in groups if type(key) is not tuple or len(key) != len(by)]


def _check_columns(one: Field, two: Field) -> None:
    """Counts of arrays have no names of columns; they can join others whose keys have as many parts."""
    if one.by and two.by:
        raise InputError(
            f"One of these fields was counted by {_listed(one.by)} and the other by {_listed(two.by)}. "
            "Count both by the same columns, in the same order."
        )
    named, other = (one, two) if one.by else (two, one)
    odd = strays(named.by, other.groups)
    if odd:
        raise InputError(
            f"One of these fields was counted by {_listed(named.by)}, but the other has the group "
            f"{group_keys.show(odd[0])!r}. Count both the same way."
        )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name!r:.40}" for name in names[:6]) + (", …" if len(names) > 6 else "")
