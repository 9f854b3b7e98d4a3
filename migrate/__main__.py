"""`python -m migrate` and the console script."""

from __future__ import annotations

from migrate.cli.main import main

if __name__ == "__main__":
    main()
