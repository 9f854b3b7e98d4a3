"""Statements that define tables, taken apart as far as it matters: which tables, under which names, in what way.

Not a whole grammar: the names stand where both servers' grammars put them (MySQL manual, "Data Definition
Statements"; MariaDB knowledge base, "ALTER TABLE"), and what is behind them is left to a server to execute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as quoted_table
from migrate.publish.schema import storage
from migrate.publish.schema.parents import parents_in
from migrate.publish.schema.sqltext import Token, without_last_semicolon, without_settings
from migrate.publish.schema.token_cursor import Mention, Name, TokenCursor


class Verb(Enum):
    CREATE = "create"
    ALTER = "alter"
    RENAME = "rename"
    DROP = "drop"
    TRUNCATE = "truncate"
    INDEX = "index"  # CREATE or DROP INDEX


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
    drops: bool = False  # an index
    selects: bool = False
    replaces: bool = False  # OR REPLACE
    if_absent: bool = False  # IF NOT EXISTS
    if_there: bool = False  # IF EXISTS, of a table that is altered, dropped or renamed
    ignores: bool = False  # ALTER IGNORE TABLE
    storage: tuple[Token, ...] = ()  # what says in which files of its server a table is, and how that changes it
    parents: tuple[Mention, ...] = ()  # of foreign keys, with a database

    @property
    def names(self) -> tuple[Name, ...]:
        return tuple(mention.name for mention in self.tables)

    def rewritten(self, names: Mapping[Name, Name], parents: Callable[[Name], str] | None = None) -> str:
        """The statement with other tables' names, without `storage`, as the driver takes it. parents: what stands for
        those of foreign keys that are named with a database; None: they stay."""
        others = [(one.start, one.end, quoted_table(*names[one.name])) for one in self.tables]
        if parents is not None:
            others += [(one.start, one.end, quote(parents(one.name))) for one in self.parents]
        parts, at = [], 0
        for start, end, text in sorted([*others, *((one.start, one.end, "") for one in self.storage)]):
            parts += [self.sql[at:start].replace("%", "%%"), text]
            at = end
        return "".join([*parts, self.sql[at:].replace("%", "%%")])


def parse(sql: str, found: Sequence[Token], database: str) -> Ddl | None:
    """The statement, or None when it defines no table. One that is about temporary tables only has no tables.

    ``database``: the session's default. Raises ValueError for a statement that should and cannot be read.
    """
    cursor = TokenCursor(without_settings(without_last_semicolon(found)), database)
    if cursor.word("CREATE"):
        return _create(sql, cursor)
    if cursor.word("ALTER"):
        return _alter(sql, cursor, database)
    if cursor.word("DROP"):
        return _drop(sql, cursor)
    if cursor.word("RENAME"):
        return _rename(sql, cursor) if cursor.word("TABLE", "TABLES") else None
    if cursor.word("TRUNCATE"):
        return _truncate(sql, cursor)
    return None


def _truncate(sql: str, cursor: TokenCursor) -> Ddl:
    """Of the whole table: what else may stand behind its name leaves rows, for all that is known."""
    cursor.word("TABLE")
    emptied = cursor.table()
    cursor.wait()
    if cursor.word("DROP", "REUSE") and not cursor.word("STORAGE"):  # MariaDB's, of no effect
        raise ValueError("it empties the table in another way than is known")
    cursor.wait()
    if cursor.rest:
        raise ValueError(f"{cursor.rest[0].text!r} stands behind the table's name")
    return Ddl(Verb.TRUNCATE, sql, (emptied,))


def _create(sql: str, cursor: TokenCursor) -> Ddl | None:
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
    rest = cursor.rest
    selects = any(token.is_word("SELECT", "VALUES", "WITH", "TABLE") and token.depth == 0 for token in rest)
    columns = next((at for at, token in enumerate(rest) if token.is_sign(")") and token.depth == 0), len(rest))
    stored = tuple(storage.in_create(rest[columns + 1 :]))
    return Ddl(
        Verb.CREATE,
        sql,
        (made,),
        selects=selects,
        replaces=replaces,
        if_absent=if_absent,
        storage=stored,
        parents=tuple(parents_in(rest)),
    )


def _index(sql: str, cursor: TokenCursor) -> Ddl | None:
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
    table, rest = cursor.table(), cursor.rest
    columns = next((at for at, token in enumerate(rest) if token.is_sign(")") and token.depth == 0), -1)
    return Ddl(Verb.INDEX, sql, (table,), storage=tuple(storage.in_create(rest[columns + 1 :])))


def _alter(sql: str, cursor: TokenCursor, database: str) -> Ddl | None:
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
    inside = {token.start for clause in clauses for token in clause}
    stored = storage.in_alter(clauses, [token for token in cursor.rest if token.start not in inside])
    return Ddl(
        Verb.ALTER,
        sql,
        tuple(mentions),
        clauses,
        if_there=if_there,
        ignores=ignores,
        storage=tuple(stored),
        parents=tuple(parents_in(cursor.rest)),
    )


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
    cursor = TokenCursor(clause, database)
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


def _drop(sql: str, cursor: TokenCursor) -> Ddl | None:
    if cursor.word("TEMPORARY"):
        return Ddl(Verb.DROP, sql, ())
    if not cursor.word("TABLE", "TABLES"):
        index = _index(sql, cursor)
        return index and replace(index, drops=True)
    if_there = cursor.words("IF", "EXISTS")
    mentions = [cursor.table()]
    while cursor.sign(","):
        mentions.append(cursor.table())
    return Ddl(Verb.DROP, sql, tuple(mentions), if_there=if_there)


def _rename(sql: str, cursor: TokenCursor) -> Ddl:
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
