"""What the clauses of an ALTER do to a table's rows, values and names of columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from migrate.publish.schema.ddl import Ddl
from migrate.publish.schema.sqltext import Token
from migrate.publish.schema.token_cursor import TokenCursor

_TAKES_ROWS: Final = (
    ("DROP", "PARTITION"), ("TRUNCATE", "PARTITION"), ("EXCHANGE", "PARTITION"), ("CONVERT", "PARTITION"),
    ("CONVERT", "TABLE"), ("DROP", "SYSTEM"), ("DISCARD", "TABLESPACE"), ("DISCARD", "PARTITION"),
    ("IMPORT", "TABLESPACE"), ("IMPORT", "PARTITION"),
)  # fmt: skip
"""What a clause begins with. DROP SYSTEM is MariaDB's DROP SYSTEM VERSIONING."""
NOT_COLUMNS: Final = (
    "INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK", "PRIMARY", "PARTITION",
)  # fmt: skip
_LEAVE_ROWS: Final = frozenset(
    re.findall(
        r"\w+",
        "ADD DROP MODIFY CHANGE ALTER RENAME COMMENT ENGINE AUTO_INCREMENT ROW_FORMAT ALGORITHM LOCK FORCE ORDER"
        " STATS_PERSISTENT STATS_AUTO_RECALC STATS_SAMPLE_PAGES KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS AVG_ROW_LENGTH"
        " CHECKSUM CHARACTER CHARSET DEFAULT COLLATE CONVERT ENABLE DISABLE ANALYZE CHECK OPTIMIZE REBUILD REPAIR"
        " REORGANIZE COALESCE PARTITION REMOVE COMPRESSION ENCRYPTION ENCRYPTED TABLESPACE WITH WITHOUT PAGE_COMPRESSED"
        " PAGE_CHECKSUM PACK_KEYS DELAY_KEY_WRITE NOWAIT WAIT AUTOEXTEND_SIZE ENGINE_ATTRIBUTE SECONDARY_ENGINE"
        " SECONDARY_ENGINE_ATTRIBUTE SECONDARY_LOAD SECONDARY_UNLOAD PAGE_COMPRESSION_LEVEL ENCRYPTION_KEY_ID"
        " TRANSACTIONAL TABLE_CHECKSUM DATA INSERT_METHOD CONNECTION",
    )
)


def takes_rows(ddl: Ddl) -> bool:
    """Whether an ALTER may remove or bring rows without events for them."""
    if ddl.ignores:
        return True
    first = (tuple(token.text.upper() if token.kind == "word" else "" for token in one[:2]) for one in ddl.clauses)
    return any(words in _TAKES_ROWS for words in first)


def leaves_values(ddl: Ddl, *, same: bool = False) -> bool:
    """Whether every clause of an ALTER leaves the values of all columns as they are, if their definition stays.

    same: the whole table is as before, so that no clause added a foreign key.
    """
    clauses = (clause for clause in ddl.clauses if not (same and _adds_no_columns(clause)))
    return all(_leaves_values(clause) for clause in clauses)


def _leaves_values(clause: Sequence[Token]) -> bool:
    if not clause or not (clause[0].kind == "word" and clause[0].text.upper() in _LEAVE_ROWS):
        return not clause
    cursor = TokenCursor(clause, "")
    if cursor.word("ADD"):
        return not _adds_columns(clause) and not _cascades(cursor.rest)
    if cursor.word("DROP"):
        return _is_no_column(cursor.rest)
    if cursor.words("RENAME", "COLUMN"):
        return False
    if cursor.word("CHANGE"):
        cursor.word("COLUMN")
        cursor.words("IF", "EXISTS")
        return cursor.name().text.lower() == cursor.name().text.lower()
    return True


def keeps_names(ddl: Ddl) -> bool:
    """Whether no name of an ALTER's table stands for another column afterwards.

    One that drops and adds columns may give a new one the name of an old one.
    """
    drops = adds = False
    for clause in ddl.clauses:
        cursor = TokenCursor(clause, "")
        if cursor.words("RENAME", "COLUMN"):
            return False
        if cursor.word("CHANGE") and not _leaves_values(clause):
            return False
        drops = drops or (cursor.word("DROP") and not _is_no_column(cursor.rest))
        adds = adds or _adds_columns(clause)
    return not (drops and adds)


def renamed_columns(clauses: Iterable[Sequence[Token]]) -> dict[str, str]:
    """The old name of each column that clauses of an ALTER give another one, by the new one."""
    found = {}
    for clause in clauses:
        cursor = TokenCursor(clause, "")
        if cursor.words("RENAME", "COLUMN"):
            cursor.words("IF", "EXISTS")
            old = cursor.name().text
            cursor.word("TO")
            found[cursor.name().text] = old
        elif cursor.word("CHANGE"):
            cursor.word("COLUMN")
            cursor.words("IF", "EXISTS")
            old = cursor.name().text
            found[cursor.name().text] = old
    return {new: old for new, old in found.items() if new != old}


def _adds_no_columns(clause: Sequence[Token]) -> bool:
    return bool(clause) and clause[0].is_word("ADD") and not _adds_columns(clause)


def _adds_columns(clause: Sequence[Token]) -> bool:
    """Whether it is an ADD of columns: keys and checks may stand in a list as columns do, ADD (KEY (a), b INT)."""
    cursor = TokenCursor(clause, "")
    if not cursor.word("ADD"):
        return False
    named = cursor.word("COLUMN")
    if not cursor.sign("("):
        return named or not _is_no_column(cursor.rest)
    return not all(_is_no_column(one) for one in (cursor.rest, *_behind_commas(cursor.rest)))


def _behind_commas(found: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """What stands behind each comma of the list that was opened before."""
    depth = found[0].depth if found else 0
    yield from (found[at + 1 :] for at, token in enumerate(found) if token.is_sign(",") and token.depth == depth)


def _is_no_column(found: Sequence[Token]) -> bool:
    cursor = TokenCursor(found, "")
    if cursor.words("VECTOR", "INDEX") or cursor.words("VECTOR", "KEY") or cursor.word(*NOT_COLUMNS):
        return True
    if not cursor.word("PERIOD"):
        return False
    if not cursor.words("IF", "NOT", "EXISTS"):
        cursor.words("IF", "EXISTS")
    return cursor.word("FOR")


def _cascades(found: Sequence[Token]) -> bool:
    """Whether a foreign key changes rows by itself; MariaDB and older MySQL do not log that."""
    return any(token.is_word("CASCADE", "SET") for token in found)
