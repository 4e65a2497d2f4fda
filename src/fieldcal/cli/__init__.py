"""The command line: parse, call, print, exit code. No statistics.

Exit codes: 0 done (and `check`: ok), 1 an error, 2 `check`: use with care, 3 `check`: do not use, 130 interrupted, 141
the reader of the output went away.
"""

try:
    from fieldcal.cli.main import main
except KeyboardInterrupt:
    raise SystemExit(130) from None

__all__ = ["main"]
