"""Libraries that only some of fieldcal needs."""

from __future__ import annotations

import importlib
from types import ModuleType

from fieldcal.errors import MissingExtraError


def require(module: str, extra: str, *, purpose: str) -> ModuleType:
    """The module, or an error that says how to get it.

    Parameters
    ----------
    module : what is imported
    extra : the extra of fieldcal that brings it
    purpose : what it is needed for, as the middle of a sentence
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{module} is needed {purpose}, and is not installed. Install it: pip install 'fieldcal[{extra}]'"
        ) from None
