"""The tables that online schema changes work on: gh-ost's and pt-online-schema-change's (their documentation).

gh-ost: `_t_gho` is the new table, `_t_ghc` its log, `_t_del` the old one after the cut-over. pt-online-schema-change:
`_t_new` (with more underscores in front where that is taken) and `_t_old`. Both end with one RENAME of both tables.
"""

from __future__ import annotations

import re

_LIMIT = 64  # characters of a name; gh-ost shortens the table's part of it


def is_ghost(name: tuple[str, str], table: tuple[str, str]) -> bool:
    """Whether `name` is the new table of a schema change of `table`."""
    if name[0] != table[0]:
        return False
    too_long = max(0, len(f"_{table[1]}_gho") - _LIMIT)
    base = table[1][: len(table[1]) - too_long]
    return name[1] == f"_{base}_gho" or re.fullmatch(rf"_+{re.escape(table[1])}_new", name[1]) is not None
