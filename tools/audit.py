"""What we stand on: known weaknesses of every installed package, and the licences of those that users install.

    python tools/audit.py

Advisories come from the package index by pip-audit. Where no index answers, that is said and is no failure; a package
with a known weakness is one, and so is a dependency of ours without a permissive licence.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PERMISSIVE = re.compile(
    r"\b(MIT|BSD|Apache|Apache-2\.0|ISC|PSF|Python Software Foundation|MPL-2\.0|0BSD|HPND|CC0)", re.I
)


def advisories() -> tuple[list[str], list[str], int]:
    """Packages with known weaknesses, those that nothing is known of, and how many were asked about."""
    run = [
        sys.executable,
        "-m",
        "pip_audit",
        "--format",
        "json",
        "--progress-spinner",
        "off",
        "--skip-editable",
    ]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        reason = (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return [], [f"all packages ({reason[:120]})"], 0
    listed = [p for p in json.loads(done.stdout)["dependencies"] if p["name"] != "fieldcal"]
    weak = [f"{p['name']} {p['version']}: {v['id']}" for p in listed for v in p.get("vulns", [])]
    return weak, [p["name"] for p in listed if "skip_reason" in p], len(listed)


def dependencies(name: str = "fieldcal") -> set[str]:
    """The packages that a user installs with all extras, and what those need in turn, as far as they are installed."""
    found: set[str] = set()
    waiting, seen = [Requirement(f"{name}[all]")], set()
    while waiting:
        wanted = waiting.pop()
        if (asked := (canonicalize_name(wanted.name), frozenset(wanted.extras))) in seen:
            continue
        seen.add(asked)
        try:
            needs = [Requirement(line) for line in metadata.requires(wanted.name) or []]
        except metadata.PackageNotFoundError:  # of an extra that is not installed
            continue
        found.add(asked[0])
        waiting += [need for need in needs if _applies(need, wanted.extras)]
    return found - {name}


def _applies(need: Requirement, extras: Iterable[str]) -> bool:
    """Whether it is needed here, with these extras."""
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in {"", *extras})


def licence(package: str) -> str:
    """What a package says of its licence."""
    told = metadata.metadata(package)
    said = [told.get("License-Expression"), *told.get_all("Classifier", []), told.get("License")]
    return "; ".join(
        line for line in said if line and ("License" in line or line is said[0] or line is said[-1])
    )


def main() -> int:
    """Tell both; 1 if a package is weak or a licence not permissive."""
    weak, unknown, asked = advisories()
    for line in weak:
        sys.stdout.write(f"known weakness: {line}\n")
    silent = f"; the index knew nothing of {len(unknown)} of them, which are not audited" if unknown else ""
    sys.stdout.write(f"advisories: {asked} packages, {len(weak)} known weaknesses{silent}\n")
    needed = sorted(dependencies())
    strange = [
        f"{p} ({licence(p)[:60] or 'none given'})" for p in needed if not PERMISSIVE.search(licence(p))
    ]
    sys.stdout.write(f"licences: {len(needed)} dependencies, {len(needed) - len(strange)} permissive\n")
    for line in strange:
        sys.stdout.write(f"licence not permissive: {line}\n")
    return int(bool(weak or strange))


if __name__ == "__main__":
    sys.exit(main())
