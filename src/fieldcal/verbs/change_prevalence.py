"""`change_prevalence`: the paper's known-bias lemma, for known prevalences."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from fieldcal.alignment import check_alignment
from fieldcal.core.reweight import Step, class_weights
from fieldcal.errors import InputError, InputTypeError, named, option
from fieldcal.objects import Correction, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.options import as_array, as_number, check_choice, check_options
from fieldcal.types import Floats, Keys
from fieldcal.validation import as_scores
from fieldcal.verbs.recalibrate import RowScores, apply

#: One number for the second of two classes; one per class, in order; or a mapping by class.
PrevalenceLike = float | Sequence[float] | Mapping[Any, Any]

_LARGEST = 1e60


def change_prevalence(
    predictions: Any,
    *,
    old: PrevalenceLike,
    new: PrevalenceLike,
    groups: Any = None,
    classes: Sequence[Hashable] | None = None,
    unseen: Literal["error", "raw"] = "error",
    normalize: bool = False,
    missing: Literal["error", "keep"] = "error",
) -> Floats:
    """Predictions corrected from one known mix of classes to another.

    Also known as prior correction, or adjusting for prior probability shift: ``C_i · new_i / old_i``, normalised to
    sum to one. It needs no lab, field or estimate. The result is exact under label shift and correct prevalences,
    neither of which is checked.

    Parameters
    ----------
    predictions : array-like (n,) or (n, K), or a table of columns named after the classes
    old, new : prevalences of the classes: those that the predictions assume, and those of the rows
        One number, for the second of two classes; one per class, in order; or a mapping or pandas Series by class.
        Only ratios count, so numbers of rows will do. To undo resampling, ``old`` are the rows per class that the
        model was trained on, ``new`` those of the original data. To undo class weights, ``old`` are the weights and
        ``new`` are ones. With ``groups``, ``new`` is a mapping from group to prevalences.
    groups : array-like (n,), optional
        The group of each row, if prevalences differ between groups.
    classes : sequence, optional
        The classes in the order of the columns, to which mappings in ``old`` and ``new`` refer. By default the columns
        of a table.
    unseen : "error" or "raw"
        Refuse rows of a group that is not in ``new``, or leave their predictions unchanged.

    Returns
    -------
    ndarray of the shape of the predictions, its columns in the order of the classes

    References
    ----------
    Saerens, M., Latinne, P. and Decaestecker, C. (2002). Adjusting the outputs of a classifier to new a priori
    probabilities. Neural Comput. 14.
    King, G. and Zeng, L. (2001). Logistic regression in rare events data. Polit. Anal. 9.

    Examples
    --------
    Trained on as many beetles as butterflies, used where one in ten is a beetle:

    >>> import fieldcal
    >>> fieldcal.change_prevalence([0.5, 0.9], old=0.5, new=0.1).round(3).tolist()
    [0.1, 0.5]
    """
    check_call("fieldcal.change_prevalence(predictions, …)", (predictions, "predictions"))
    check_choice("unseen", unseen, ("error", "raw"))
    check_choice("missing", missing, ("error", "keep"))
    check_options(normalize=normalize)
    check_alignment(predictions=predictions, groups=groups)
    names = _class_names(predictions, classes)
    correction = known_correction(old, new, classes=names, grouped=groups is not None)
    if names is not None and len(names) != correction.n_classes:
        raise InputError(
            f"There are {len(names)} classes, {names!r:.120}, but old has {correction.n_classes}. Give one number each."
        )
    scores = as_scores(
        predictions, classes=names, n_classes=correction.n_classes, normalize=normalize, missing=missing
    )
    return apply(correction, groups, RowScores(scores.values, binary=not scores.columns), unseen=unseen)


def known_correction(old: Any, new: Any, *, classes: Keys | None, grouped: bool) -> Correction:
    """The lemma's step, with one row of weights, or one per group."""
    trained = as_prevalences("old", old, classes)
    if (trained <= 0).any():
        raise InputError(
            f"old is 0 for class number {int(trained.argmin())}: a model that was not trained on a class gives no "
            "prediction of it to correct. Leave the class out of the predictions."
        )
    if not grouped:
        weights = class_weights(_same_classes("new", as_prevalences("new", new, classes), trained), trained)
        step = (Step(1.0, weights),)
        return Correction(step, step, (None,), False, len(trained), known=True)
    new = _named(new)
    if not isinstance(new, Mapping) or not new:
        raise InputError(
            "With groups, new must be a mapping from each group to its prevalences, such as {'north': 0.1, 'south': "
            f"0.3}}, but got {new!r:.60}. If all groups have the same prevalences, leave groups out."
        )
    keys = tuple(group_keys.normalize(key) for key in new)
    if len(set(keys)) < len(keys):
        raise InputError("new names a group twice. Give each group one prevalence.")
    rows = [
        _same_classes(words, as_prevalences(words, value, classes), trained)
        for words, value in ((f"new of group {group_keys.show(k)!r}", v) for k, v in new.items())
    ]
    step = (Step(1.0, class_weights(np.array(rows), trained)),)
    return Correction(step, (), keys, True, len(trained), known=True)


def as_prevalences(name: str, given: Any, classes: Keys | None = None) -> Floats:
    """Shares of the classes (K,), or numbers proportional to them."""
    given = _named(given)
    if isinstance(given, Mapping):
        given = _in_order(name, given, classes)
    shares = as_array(name, given)
    if shares.ndim == 0:
        share = as_number(name, given, least=0, most=1, words="a share, or one number per class")
        return np.array([1.0 - share, share])
    if shares.ndim != 1 or len(shares) < 2:
        raise InputError(
            f"{named(name)} must be one number per class, two at least, but has shape {shares.shape}."
        )
    if not (np.isfinite(shares) & (shares >= 0) & (shares <= _LARGEST)).all() or not shares.any():
        raise InputError(
            f"{named(name)} must be shares or numbers of rows, none negative and not all 0, but got {given!r:.60}."
        )
    return shares


def _named(given: Any) -> Any:
    """A pandas Series as a mapping from class to number, as its order is not that of the classes."""
    is_series = hasattr(given, "index") and hasattr(given, "items") and getattr(given, "ndim", 0) == 1
    return dict(given.items()) if is_series else given


def _in_order(name: str, given: Mapping[Any, Any], classes: Keys | None) -> list[Any]:
    if classes is None:
        raise InputError(
            f"{named(name)} names classes, but their order is not known. Pass {option('classes')}."
        )
    values = {group_keys.normalize(key): value for key, value in given.items()}
    if not set(values) & set(classes):  # column names are text, classes need not be
        by_text = {str(c): c for c in classes}
        values = {by_text.get(str(key), key): value for key, value in values.items()}
    odd = [*(c for c in classes if c not in values), *(c for c in values if c not in classes)]
    if odd:
        raise InputError(
            f"{named(name)} must have one number for each of the classes {classes!r:.200}, but {odd[0]!r:.60} is "
            f"{'missing' if odd[0] in classes else 'none of them'}."
        )
    return [values[c] for c in classes]


def _same_classes(name: str, shares: Floats, trained: Floats) -> Floats:
    if len(shares) != len(trained):
        raise InputError(
            f"old has {len(trained)} classes and {name} has {len(shares)}. Give both for the same ones."
        )
    return shares


def as_classes(classes: Any) -> Keys:
    """Names of the classes, in the order of the columns."""
    if isinstance(classes, (str, bytes)) or not isinstance(classes, (Sequence, np.ndarray)):
        raise InputTypeError(f"classes must be names in the order of the columns, but got {classes!r:.60}.")
    return tuple(group_keys.normalize(c) for c in classes)


def _class_names(predictions: Any, classes: Any) -> Keys | None:
    if classes is not None:
        return as_classes(classes)
    columns = getattr(predictions, "columns", None)
    if isinstance(predictions, np.ndarray) or columns is None or len(columns) < 2:
        return None
    return tuple(getattr(predictions, "column_names", columns))
