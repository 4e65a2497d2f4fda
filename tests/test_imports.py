"""Imports go one way, and `import fieldcal` loads nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import fieldcal
from sources import SOURCE, trees

STANDARD = sys.stdlib_module_names

#: Folder or module → what of fieldcal, and what of others, it may import. The order is the direction of flow.
ALLOWED: dict[str, tuple[set[str], set[str]]] = {
    "errors": (set(), set()),
    "types": (set(), {"numpy"}),
    "texts": ({"errors"}, set()),
    "option_rows": ({"errors", "texts"}, set()),
    "options": ({"errors", "option_rows"}, {"numpy"}),
    "core": ({"errors", "types", "options", "core"}, {"numpy", "scipy"}),
    "storage": ({"errors"}, set()),
    "alignment": ({"errors"}, set()),
    "metrics": ({"errors", "types", "options", "alignment"}, {"numpy"}),
    "objects": (
        {"errors", "types", "storage", "options", "metrics", "core", "objects"},
        {"numpy", "pydantic", "pydantic_core", "rich"},
    ),
    "partitions": ({"core"}, set()),
    "priors": ({"core"}, set()),
    "validation": ({"errors", "types", "storage", "options", "core", "objects"}, {"numpy"}),
    "regression": (
        {"errors", "types", "storage", "options", "alignment", "core", "objects", "regression"},
        {"numpy", "scipy"},
    ),
    "verbs": (
        {"errors", "types", "storage", "options", "alignment", "metrics", "core", "objects"}
        | {"validation", "regression", "verbs"},
        {"numpy", "scipy"},
    ),
}
_VERBS = ALLOWED["verbs"][0]
ALLOWED |= {
    "datasets": (_VERBS | {"datasets"}, {"numpy"}),
    "tables": (
        _VERBS | {"tables", "texts", "option_rows"},
        {"numpy", "duckdb", "pandas", "polars", "pyarrow", "pyspark", "sqlglot"},
    ),
    "estimators": (_VERBS | {"estimators"}, {"numpy", "sklearn"}),
}
_LAYERS = _VERBS | {"estimators", "tables", "datasets"}
ALLOWED |= {
    "plots": (_LAYERS | {"plots"}, {"numpy", "matplotlib"}),
    "reporting": (
        _LAYERS | {"plots", "reporting"},
        {"numpy", "jinja2", "markupsafe", "matplotlib"},
    ),
}
ALLOWED["the public names"] = (set(ALLOWED), set())  # fieldcal/__init__.py
_PUBLIC = _LAYERS | {"plots", "reporting", "the public names"}
ALLOWED |= {
    "demo": (_PUBLIC, {"numpy", "sklearn"}),
    "cli": (_PUBLIC | {"cli", "demo", "texts", "option_rows"}, {"typer", "rich"}),
    "__main__": ({"cli"}, set()),
}
#: What core must not touch although Python brings it along: files, logging, global state.
NOT_IN_CORE = {"os", "io", "pathlib", "json", "logging", "random", "tempfile", "subprocess", "socket", "csv"}
HEAVY = (
    *("sklearn", "scipy", "pandas", "polars", "pyarrow", "duckdb", "pyspark", "pydantic"),
    *("matplotlib", "jinja2", "rich"),
)


def folder(path):
    name = path.relative_to(SOURCE).with_suffix("").parts[0]
    return "the public names" if name == "__init__" else name


def imported(path):
    """Everything a module imports, also inside functions and for the type checker alone."""
    for node in ast.walk(trees()[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            if node.module == "fieldcal":
                yield from (f"fieldcal.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


@pytest.mark.usefixtures("parsed")
def test_a_module_imports_only_what_its_folder_may():
    for path in trees():
        name = folder(path)
        assert name in ALLOWED, f"{name} is new: say in the table what it may import"
        own, others = ALLOWED[name]
        for target in imported(path):
            parts = target.split(".")
            if parts[0] == "fieldcal":
                inside = parts[1] if len(parts) > 1 else "the public names"
                assert inside in own, f"{path} imports fieldcal.{inside}, against the direction"
            elif parts[0] not in STANDARD:
                assert parts[0] in others, f"{path} imports {parts[0]}"
            elif name == "core":
                assert parts[0] not in NOT_IN_CORE, f"{path} imports {parts[0]}"


def test_the_table_itself_has_no_circles():
    order = list(ALLOWED)
    for name, (own, _) in ALLOWED.items():
        later = {other for other in own if order.index(other) > order.index(name)}
        assert not later, f"{name} may import {later}, which come after it"


def run(code):
    """In a fresh interpreter, with warnings as errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_fieldcal_loads_nothing_heavy():
    loaded = run("import sys, fieldcal; print(*sorted({m.split('.')[0] for m in sys.modules}))").split()
    assert "fieldcal" in loaded
    assert not set(loaded) & {*HEAVY, "numpy", "sqlglot"}


def test_the_verbs_load_without_the_large_parts_of_scipy():
    code = (
        "import sys, fieldcal; fieldcal.learn, fieldcal.estimate, fieldcal.recalibrate; print(*sys.modules)"
    )
    heavy = {"stats", "optimize", "interpolate", "spatial", "sparse", "integrate"}
    assert not set(run(code).split()) & {f"scipy.{part}" for part in heavy}


@pytest.mark.slow
def test_the_four_verbs_load_no_frames_and_no_estimators():
    code = """
import sys, fieldcal
lab = fieldcal.learn([.1, .2, .8, .9] * 20, [0, 0, 1, 1] * 20)
prev = fieldcal.estimate(lab, fieldcal.count(lab, [.1, .9, .8]), prior="flat", trust=1)
fieldcal.recalibrate(prev, [.5])
print(*sorted({m if "regression" in m else m.split('.')[0] for m in sys.modules}))
"""
    loaded = set(run(code).split())
    assert not loaded & (set(HEAVY) - {"scipy", "pydantic"})
    assert not [name for name in loaded if name.startswith("fieldcal.regression")]


def test_every_public_name_exists_and_is_listed_once():
    assert len(set(fieldcal.__all__)) == len(fieldcal.__all__)
    for name in fieldcal.__all__:
        assert getattr(fieldcal, name) is not None
    assert set(fieldcal.__all__) <= set(dir(fieldcal))
    with pytest.raises(AttributeError, match="no attribute 'lern'"):
        _ = fieldcal.lern


@pytest.mark.usefixtures("parsed")
def test_no_module_changes_what_others_see():
    """No global seeds, filters or handlers."""
    calls = (
        "np.random.seed",
        "warnings.simplefilter",
        "warnings.filterwarnings",
        "np.seterr(",
        "basicConfig",
    )
    for path in trees():
        found = [call for call in calls if call in path.read_text(encoding="utf-8")]
        assert not found, f"{path} calls {found}"
