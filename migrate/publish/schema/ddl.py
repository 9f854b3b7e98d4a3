"""Statements that define tables, taken apart as far as it matters: which tables, under which names, in what way.

Not a whole grammar: the names stand where both servers' grammars put them (MySQL manual, "Data Definition
Statements"; MariaDB knowledge base, "ALTER TABLE"), and what is behind them is left to a server to execute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from migrate.mysql.quoting import table as quoted_table
from migrate.publish.schema.sqltext import Token, without_last_semicolon, without_settings

Name = tuple[str, str]
"""(database, table)"""


class Verb(Enum):
    CREATE = "create"
    ALTER = "alter"
    RENAME = "rename"
    DROP = "drop"
    TRUNCATE = "truncate"
    INDEX = "index"  # CREATE or DROP INDEX


@dataclass(frozen=True, slots=True)
class Mention:
    """A table's name in a statement, and where it stands."""

    name: Name
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Ddl:
    """One statement.

    tables: those it is about. Pairs of old and new for RENAME, and for ALTER … RENAME TO; for CREATE … LIKE the new
    table and its model. clauses: of an ALTER, the tokens between its commas.
    """

    verb: Verb
    sql: str
    tables: tuple[Mention, ...]
    clauses: tuple[tuple[Token, ...], ...] = ()
    like: bool = False
    selects: bool = False
    replaces: bool = False  # OR REPLACE
    if_absent: bool = False  # IF NOT EXISTS
    if_there: bool = False  # IF EXISTS, of an ALTER or a RENAME
    ignores: bool = False  # ALTER IGNORE TABLE

    @property
    def names(self) -> tuple[Name, ...]:
        return tuple(mention.name for mention in self.tables)

    def rewritten(self, names: Mapping[Name, Name]) -> str:
        """The statement with other tables' names, as the driver takes it."""
        parts, at = [], 0
        for mention in sorted(self.tables, key=lambda one: one.start):
            parts.append(self.sql[at : mention.start].replace("%", "%%"))
            parts.append(quoted_table(*names[mention.name]))
            at = mention.end
        return "".join([*parts, self.sql[at:].replace("%", "%%")])


class _Cursor:
    """Reads tokens one after the other. ValueError where the next one is not as the grammar has it."""

    def __init__(self, found: Sequence[Token], database: str) -> None:
        self._tokens = found
        self._at = 0
        self._database = database

    @property
    def rest(self) -> Sequence[Token]:
        return self._tokens[self._at :]

    def word(self, *words: str) -> bool:
        """Take the next token if it is one of these words."""
        if self.rest and self.rest[0].is_word(*words):
            self._at += 1
            return True
        return False

    def words(self, *sequence: str) -> bool:
        """Take the next tokens if they are these words, in this order."""
        if len(self.rest) >= len(sequence) and all(
            token.is_word(word) for token, word in zip(self.rest, sequence, strict=False)
        ):
            self._at += len(sequence)
            return True
        return False

    def sign(self, sign: str) -> bool:
        if self.rest and self.rest[0].is_sign(sign):
            self._at += 1
            return True
        return False

    def take(self) -> Token:
        if not self.rest:
            raise ValueError("it ends early")
        self._at += 1
        return self._tokens[self._at - 1]

    def name(self) -> Token:
        token = self.take()
        if not token.is_name:
            raise ValueError(f"{token.text!r} stands where a name should")
        return token

    def table(self) -> Mention:
        first = self.name()
        if not self.sign("."):
            if not self._database:
                raise ValueError("there is no default database")
            return Mention((self._database, first.text), first.start, first.end)
        second = self.name()
        return Mention((first.text, second.text), first.start, second.end)

    def wait(self) -> None:
        """MariaDB's WAIT n, NOWAIT."""
        if self.word("WAIT"):
            self.take()
        else:
            self.word("NOWAIT")


def parse(sql: str, found: Sequence[Token], database: str) -> Ddl | None:
    """The statement, or None when it defines no table. One that is about temporary tables only has no tables.

    ``database``: the session's default. Raises ValueError for a statement that should and cannot be read.
    """
    cursor = _Cursor(without_settings(without_last_semicolon(found)), database)
    if cursor.word("CREATE"):
        return _create(sql, cursor)
    if cursor.word("ALTER"):
        return _alter(sql, cursor, database)
    if cursor.word("DROP"):
        return _drop(sql, cursor)
    if cursor.word("RENAME"):
        return _rename(sql, cursor) if cursor.word("TABLE", "TABLES") else None
    if cursor.word("TRUNCATE"):
        cursor.word("TABLE")
        return Ddl(Verb.TRUNCATE, sql, (cursor.table(),))
    return None


def _create(sql: str, cursor: _Cursor) -> Ddl | None:
    replaces = cursor.words("OR", "REPLACE")
    if cursor.word("TEMPORARY"):
        return Ddl(Verb.CREATE, sql, ())
    if not cursor.word("TABLE"):
        return _index(sql, cursor)
    if_absent = cursor.words("IF", "NOT", "EXISTS")
    made = cursor.table()
    cursor.sign("(")  # CREATE TABLE a (LIKE b)
    if cursor.word("LIKE"):
        return Ddl(Verb.CREATE, sql, (made, cursor.table()), like=True, replaces=replaces, if_absent=if_absent)
    selects = any(token.is_word("SELECT", "VALUES", "WITH", "TABLE") and token.depth == 0 for token in cursor.rest)
    return Ddl(Verb.CREATE, sql, (made,), selects=selects, replaces=replaces, if_absent=if_absent)


def _index(sql: str, cursor: _Cursor) -> Ddl | None:
    """CREATE or DROP INDEX … ON table."""
    cursor.word("ONLINE", "OFFLINE")
    cursor.word("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
    if not cursor.word("INDEX"):
        return None
    if not cursor.words("IF", "NOT", "EXISTS"):
        cursor.words("IF", "EXISTS")
    cursor.name()
    while not cursor.word("ON"):
        cursor.take()
    return Ddl(Verb.INDEX, sql, (cursor.table(),))


def _alter(sql: str, cursor: _Cursor, database: str) -> Ddl | None:
    cursor.word("ONLINE", "OFFLINE")
    ignores = cursor.word("IGNORE")
    if not cursor.word("TABLE"):
        return None
    if_there = cursor.words("IF", "EXISTS")
    altered = cursor.table()
    cursor.wait()
    clauses = tuple(_split(cursor.rest))
    mentions = [altered]
    for clause in clauses:
        mentions += _names_in(clause, database)
    return Ddl(Verb.ALTER, sql, tuple(mentions), clauses, if_there=if_there, ignores=ignores)


def _split(found: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """At its commas; not at those between names of partitions, or of columns to order by, where nothing else comes."""
    clause: list[Token] = []
    for place, token in enumerate(found):
        if token.is_sign(",") and token.depth == 0 and not (_lists_names(clause) and _ends_name(found[place + 1 :])):
            yield tuple(clause)
            clause = []
        else:
            clause.append(token)
    if clause:
        yield tuple(clause)


def _lists_names(clause: Sequence[Token]) -> bool:
    """Whether a comma may be one between names of a clause, as far as it is read."""
    words = [token.text.upper() if token.kind == "word" else "" for token in clause[:2]]
    return words == ["ORDER", "BY"] or (words[1:] == ["PARTITION"] and words[0] not in ("ADD", "EXCHANGE", "CONVERT"))


def _ends_name(rest: Sequence[Token]) -> bool:
    """Whether a name stands here alone, as in a list: behind it comes another comma, the end, or what ends a list."""
    if not rest or not rest[0].is_name:
        return False
    return len(rest) == 1 or rest[1].is_sign(",") or rest[1].is_word("INTO", "TABLESPACE", "ASC", "DESC")


def _names_in(clause: Sequence[Token], database: str) -> Iterator[Mention]:
    """The new name of RENAME [TO | AS], and the other table of EXCHANGE or CONVERT.

    A name alone is looked for in the session's database, not in that of the altered table: both servers do so in every
    statement on tables, except for the parent of a foreign key, which is not read here.
    """
    cursor = _Cursor(clause, database)
    if cursor.word("RENAME"):
        if cursor.word("COLUMN", "INDEX", "KEY"):
            return
        if not cursor.word("TO", "AS"):
            cursor.sign("=")
        yield cursor.table()
    elif cursor.word("EXCHANGE"):
        while not cursor.words("WITH", "TABLE"):
            cursor.take()
        yield cursor.table()
    elif cursor.words("CONVERT", "TABLE"):
        yield cursor.table()
    elif cursor.words("CONVERT", "PARTITION"):
        while not cursor.words("TO", "TABLE"):
            cursor.take()
        yield cursor.table()


def _drop(sql: str, cursor: _Cursor) -> Ddl | None:
    if cursor.word("TEMPORARY"):
        return Ddl(Verb.DROP, sql, ())
    if not cursor.word("TABLE", "TABLES"):
        return _index(sql, cursor)
    cursor.words("IF", "EXISTS")
    mentions = [cursor.table()]
    while cursor.sign(","):
        mentions.append(cursor.table())
    return Ddl(Verb.DROP, sql, tuple(mentions))


def _rename(sql: str, cursor: _Cursor) -> Ddl:
    if_there = cursor.words("IF", "EXISTS")
    mentions: list[Mention] = []
    while True:
        mentions.append(cursor.table())
        cursor.wait()
        if not cursor.word("TO"):
            raise ValueError("TO is missing in a RENAME")
        mentions.append(cursor.table())
        if not cursor.sign(","):
            break
    if cursor.rest:
        raise ValueError(f"{cursor.rest[0].text!r} stands behind a RENAME")
    return Ddl(Verb.RENAME, sql, tuple(mentions), if_there=if_there)


# -- what a clause of an ALTER does to rows and columns

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


def leaves_values(ddl: Ddl) -> bool:
    """Whether every clause of an ALTER leaves the values of all columns as they are, if their definition stays."""
    return all(_leaves_values(clause) for clause in ddl.clauses)


def _leaves_values(clause: Sequence[Token]) -> bool:
    if not clause or not (clause[0].kind == "word" and clause[0].text.upper() in _LEAVE_ROWS):
        return not clause
    cursor = _Cursor(clause, "")
    if cursor.word("ADD"):
        return not _adds_columns(clause) and not _cascades(cursor.rest)
    if cursor.word("DROP"):
        return cursor.word(*NOT_COLUMNS)
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
        cursor = _Cursor(clause, "")
        if cursor.words("RENAME", "COLUMN"):
            return False
        if cursor.word("CHANGE") and not _leaves_values(clause):
            return False
        drops = drops or (cursor.word("DROP") and not cursor.word(*NOT_COLUMNS))
        adds = adds or _adds_columns(clause)
    return not (drops and adds)


def _adds_columns(clause: Sequence[Token]) -> bool:
    """Whether it is an ADD of columns: keys and checks may stand in a list as columns do, ADD (KEY (a), b INT)."""
    cursor = _Cursor(clause, "")
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
    cursor = _Cursor(found, "")
    return cursor.words("VECTOR", "INDEX") or cursor.words("VECTOR", "KEY") or cursor.word(*NOT_COLUMNS)


def _cascades(found: Sequence[Token]) -> bool:
    """Whether a foreign key changes rows by itself; MariaDB and older MySQL do not log that."""
    return any(token.is_word("CASCADE", "SET") for token in found)
