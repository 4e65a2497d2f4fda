"""What `import fieldcal` costs, beside `import numpy`, each in fresh interpreters.

    python benchmarks/import_cost.py [--runs 7]

Bar: `import fieldcal` takes at most 5 times as long as `import numpy`. Above the bare interpreter, both; the
fastest of several runs, since noise only ever adds. For information: the time until each layer is ready to use.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

BAR = 5.0
STATEMENTS = {
    "import numpy": "import numpy",
    "import fieldcal": "import fieldcal",
    "the four verbs": "import fieldcal; fieldcal.learn, fieldcal.count, fieldcal.estimate, fieldcal.recalibrate",
    "the estimators": "import fieldcal; fieldcal.Recalibrator",
    "import sklearn.base": "import sklearn.base",
    "import scipy.optimize": "import scipy.optimize",
    "import pydantic": "from pydantic import BaseModel",
}


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def fastest(runs: int) -> dict[str, float]:
    """In turns, so that a slow moment of the machine hits all alike; the bare interpreter taken off."""
    best = dict.fromkeys(["pass", *STATEMENTS], float("inf"))
    for _ in range(runs + 1):  # the first round fills the caches of the file system
        for name in best:
            best[name] = min(best[name], seconds(STATEMENTS.get(name, name)))
    bare = best.pop("pass")
    return {name: best[name] - bare for name in best}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=7)
    cost = fastest(parser.parse_args().runs)
    for name, value in cost.items():
        print(f"{name:<22} {1000 * value:7.1f} ms")
    ratio = cost["import fieldcal"] / cost["import numpy"]
    verdict = "met" if ratio <= BAR else "MISSED"
    print(f"\nimport fieldcal / import numpy: {ratio:.2f} (bar: at most {BAR:g}, {verdict})")


if __name__ == "__main__":
    main()
