"""``python -m fieldcal``: the command line."""

if __name__ == "__main__":
    try:
        from fieldcal.cli import main

        main()
    except KeyboardInterrupt:  # before `main` has begun
        raise SystemExit(130) from None
