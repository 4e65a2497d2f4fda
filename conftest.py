"""Examples in modules that need an extra run where it is installed: `make integrations`."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [
    f"src/fieldcal/integrations/{extra}*.py" for extra in ("mlflow", "onnx") if find_spec(extra) is None
]
