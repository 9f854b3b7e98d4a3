"""Full-text keys whose documents the application numbers by a column FTS_DOC_ID (MySQL manual, "InnoDB Full-Text
Indexes").

InnoDB takes a row only with a number above all that the table had, also of rows that are gone, and at most 65,535 above
them (error 182): a copy and a stream, which write rows in another order than the application did, cannot keep to that.
"""

from __future__ import annotations

import re

from migrate.model.table import Table

NUMBER = "FTS_DOC_ID"
"""InnoDB takes the name in capital letters only."""
_KEY = re.compile(r"^ *FULLTEXT KEY (`(?:[^`\n]|``)++`)", re.MULTILINE)


def numbered_by_rows(table: Table, statement: str) -> list[str]:
    """The full-text keys of such a table, quoted; none where InnoDB numbers the documents.

    statement: SHOW CREATE TABLE's.
    """
    return _KEY.findall(statement) if NUMBER in table.by_name else []
