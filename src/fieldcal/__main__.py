"""``python -m fieldcal``: the command line."""

from fieldcal.cli import main

if __name__ == "__main__":
    main()
