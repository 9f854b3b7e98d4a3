"""`python -m migrate` and the console script."""

from __future__ import annotations

import gc

gc.disable()  # until all is imported, which stays: looking through it again and again took a tenth of a start

from migrate.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
