"""All experiments, or those that are named, one after the other: figures, CSV files and ``summary.md``.

    python experiments/run.py [--quick] [--out DIR] [--jobs N] [--fresh] [names …]

Stopped, it goes on where it was; finished, it only draws again.
"""

from __future__ import annotations

import sys

import entomologist
import examples
import platt
import real_groups
import resolution
import subpopulations
from harness import folder_of, parser, perform_all, replace

import fieldcal
import quantification

EXPERIMENTS = {
    "entomologist": entomologist.study,
    "examples": examples.study,
    "platt": platt.study,
    "resolution": resolution.study,
    "subpopulations": subpopulations.study,
    "quantification": quantification.study,
    "real_groups": real_groups.study,
}


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit code."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument(
        "names", nargs="*", metavar="names", help=f"of {', '.join(EXPERIMENTS)} (all of them)"
    )
    options = options_parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in EXPERIMENTS]
    if unknown:
        options_parser.error(f"there is no experiment {unknown[0]!r}, only {', '.join(EXPERIMENTS)}")
    names = [name for name in EXPERIMENTS if name in options.names or not options.names]
    code = perform_all([EXPERIMENTS[name](quick=options.quick) for name in names], options)
    folder = folder_of(options)
    sections = [folder / f"{name}.md" for name in EXPERIMENTS]
    texts = [path.read_text(encoding="utf-8") for path in sections if path.exists()]
    if texts:
        head = f"# Results of the experiments\n\nMade by `experiments/run.py`, fieldcal {fieldcal.__version__}.\n"
        replace(folder / "summary.md", "\n".join([head, *texts]))
    return code


if __name__ == "__main__":
    sys.exit(main())
