"""`python -m openclaw`."""

from openclaw.cli.main import main

if __name__ == "__main__":
    main()
