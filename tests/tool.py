"""The scripts of tools/, which are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    """A script by its name, loaded once."""
    known = f"{name}_tool"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, ROOT / "tools" / f"{name}.py")
        module = sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[known]
