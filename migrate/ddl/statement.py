"""A statement for a logical table, read as far as it takes to write it for each shard table; or refused.

Where names stand is for `migrate.publish.schema.ddl`; what the rest means, a server says on a scratch table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.ddl.levels import Level
from migrate.model.errors import PreflightError
from migrate.mysql.quoting import printed_table
from migrate.publish.schema import ddl
from migrate.publish.schema.alter_effects import NOT_COLUMNS, renamed_columns, takes_rows
from migrate.publish.schema.ddl import Ddl, Verb
from migrate.publish.schema.sqltext import Token, tokens
from migrate.publish.schema.token_cursor import TokenCursor

_NO_DATABASE = "\0"
"""Stands for the database of a table that is named without one."""
_NEWEST = 999_999
_NO_COLUMN = (*NOT_COLUMNS, "SYSTEM", "PERIOD")
"""What a DROP names that is no column; it is taken for a column's name where nothing else stands behind it."""
_HELP = "docs/ddl.md lists what is run over shard tables"
_TAKEN_BY_HAND = (
    ("TRUNCATE", "PARTITION"), ("EXCHANGE", "PARTITION"), ("CONVERT", "PARTITION"), ("CONVERT", "TABLE"),
    ("DISCARD", "TABLESPACE"), ("DISCARD", "PARTITION"), ("IMPORT", "TABLESPACE"), ("IMPORT", "PARTITION"),
)  # fmt: skip
"""What moves or removes rows and leaves the definition as it was, or is about a further table."""


@dataclass(frozen=True)
class LogicalStatement:
    """sql: as it was given. database: that it names, "" for none. renamed: old names of columns by the new ones."""

    sql: str
    verb: Verb
    database: str
    table: str
    start: int  # of the table's name in `sql`
    end: int
    bare: bool  # an ALTER whose first clause takes no comma before it
    clauses: tuple[tuple[Token, ...], ...]
    removes_rows: str  # what a clause does to rows of partitions, or of history; "" for nothing
    counter: bool  # whether it sets the auto-increment counter, which no definition here has
    index: str = ""  # what a DROP INDEX drops, as it is written

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}" if self.database else self.table

    @property
    def is_alter(self) -> bool:
        """Whether an algorithm can be chosen."""
        return self.verb in (Verb.ALTER, Verb.INDEX)

    def for_table(self, database: str, table: str, level: Level | None = None) -> str:
        """The statement for a shard table. level: the algorithm and lock that it names; None: the server chooses."""
        chosen = _clauses(level)
        named = printed_table(database, table)
        before, behind = self.sql[: self.start], self.sql[self.end :]
        if not chosen or not self.is_alter:
            return f"{before}{named}{behind}"
        if self.index:  # an ALTER to both servers; MariaDB takes no algorithm in a DROP INDEX
            return f"ALTER TABLE {named} {', '.join([*chosen, f'DROP INDEX {self.index}'])}"
        if self.verb is Verb.INDEX:
            return f"{before}{named}{behind} {' '.join(chosen)}"
        return f"{before}{named} {', '.join(chosen)}{'' if self.bare else ','}{behind}"

    @property
    def dropped(self) -> list[str]:
        """The columns whose values go, also where one of the same name comes in the same statement."""
        found = []
        for clause in self.clauses:
            cursor = TokenCursor(clause, _NO_DATABASE)
            if cursor.word("DROP") and (cursor.word("COLUMN") or not cursor.word(*_NO_COLUMN)):
                cursor.words("IF", "EXISTS")
                found.append(cursor.name().text)
        return found

    @property
    def renamed(self) -> dict[str, str]:
        """The old name of each column that gets another one, by the new one."""
        return renamed_columns(self.clauses)


def _clauses(level: Level | None) -> list[str]:
    if level is None or not level.algorithm or level.algorithm == "-":
        return []
    return [f"ALGORITHM={level.algorithm}", *([f"LOCK={level.lock}"] if level.lock else [])]


def read(sql: str) -> LogicalStatement:
    """The statement. Raises PreflightError for one that cannot be read, or is not run over shard tables."""
    text = sql.strip().removesuffix(";").rstrip()
    if "/*!" in text or "/*M!" in text.upper():
        raise _refused("it has text for some servers alone (/*! … */)", "write what every server of the rule is to get")
    try:
        found = tokens(text, 0, _NEWEST, mariadb=False)
        _refuse_long_name(found)
        parsed = ddl.parse(text, found, _NO_DATABASE)
    except ValueError as error:
        raise _refused(f"it cannot be read: {error}", "check how it is written, and its quotes") from None
    if any(token.is_sign(";") for token in found):
        raise _refused("it is more than one statement", "one statement is one run")
    if parsed is None or not parsed.tables:
        raise _refused("it is no ALTER, CREATE INDEX, DROP INDEX, TRUNCATE or DROP of a table", _HELP)
    _refuse(parsed, found)
    (database, table), mention = parsed.tables[0].name, parsed.tables[0]
    first = parsed.clauses[0] if parsed.clauses else ()
    return LogicalStatement(
        *(text, parsed.verb, "" if database == _NO_DATABASE else database, table, mention.start, mention.end),
        bare=_begins(first, "PARTITION", "BY") or _begins(first, "REMOVE", "PARTITIONING"),
        clauses=parsed.clauses,
        removes_rows=_removed(parsed) if parsed.verb is Verb.ALTER else "",
        counter=any(clause[0].is_word("AUTO_INCREMENT") for clause in parsed.clauses if clause),
        index=_index(text, found, mention.start) if parsed.drops else "",
    )


def _refuse_long_name(found: Sequence[Token]) -> None:
    """Raises PreflightError where the table's name has more than two parts: the servers' parsers would stop there."""
    first = next((at for at, token in enumerate(found) if token.is_sign(".")), None)
    if first is not None and first + 2 < len(found) and found[first + 2].is_sign(".") and _is_of_table(found, first):
        parts = [token.text for token in found[first - 1 : first + 4 : 2]]
        raise _refused(
            f"the table's name {'.'.join(parts)} has more than two parts",
            "write it with its database, as shop.orders, or without; a name with a dot in it goes in backquotes",
        )


def _is_of_table(found: Sequence[Token], dot: int) -> bool:
    """Whether the name that has this dot is the table's, by the word before it: an expression's columns have others."""
    before = found[dot - 2 : dot - 1]
    return any(token.is_word("TABLE", "TABLES", "TRUNCATE", "ON", "EXISTS") for token in before)


def _index(text: str, found: list[Token], table: int) -> str:
    """What stands between INDEX and ON."""
    before = [token for token in found if token.start < table]
    word = next(at for at, token in enumerate(before) if token.is_word("INDEX"))
    return text[before[word + 1].start : before[-2].end]


def without_level(sql: str) -> str:
    """An ALTER TABLE as a log has it, without the algorithm, the lock and the wait that it names: they were for the
    server where it was run. Any other text as it is."""
    text = sql.strip().removesuffix(";").rstrip()
    if "/*!" in text or "/*M!" in text.upper():
        return text  # refused by `read`
    try:
        parsed = ddl.parse(text, tokens(text, 0, _NEWEST, mariadb=False), _NO_DATABASE)
    except ValueError:
        return text
    if parsed is None or parsed.verb is not Verb.ALTER:
        return text
    left = [clause for clause in parsed.clauses if not clause[0].is_word("ALGORITHM", "LOCK")]
    end, first = parsed.tables[0].end, parsed.clauses[0][0].start if parsed.clauses else 0
    if not left or (len(left) == len(parsed.clauses) and not text[end:first].strip()):
        return text
    return f"{text[:end]} {', '.join(text[clause[0].start : clause[-1].end] for clause in left)}"


def _refuse(parsed: Ddl, found: list[Token]) -> None:
    """What is not run over shard tables, with the reason."""
    if parsed.verb in (Verb.CREATE, Verb.RENAME):
        raise _refused(f"{parsed.verb.value.upper()} TABLE is not run", "the rule gives the shard tables their names")
    if len(parsed.tables) > 1:
        raise _refused("it is about more than one table", "a run is about one logical table, which keeps its name")
    if parsed.if_there or parsed.ignores:
        raise _refused("IF EXISTS and IGNORE hide what they leave out", "leave these words out")
    own = [token for clause in parsed.clauses for token in clause[:1]]
    own += found if parsed.verb is Verb.INDEX else []
    if any(token.is_word("ALGORITHM", "LOCK", "WAIT", "NOWAIT") and token.depth == 0 for token in own) or (
        parsed.verb is Verb.ALTER and _waits(parsed, found)
    ):
        raise _refused("it says ALGORITHM, LOCK or WAIT itself", "leave them out: options of the command say it")
    if parsed.storage:
        raise _refused("it says in which files a table is, which differs by server", "alter each server by hand")
    if parsed.verb is Verb.ALTER and not parsed.clauses:
        raise _refused("it changes nothing", _HELP)
    for clause in parsed.clauses:
        for pair in _TAKEN_BY_HAND:
            if _begins(clause, *pair):
                raise _refused(f"{' '.join(pair)} leaves no sign in a definition", "run it by hand, table by table")
    if any(token.is_word("REFERENCES") for token in found):
        raise _refused(
            "a foreign key names a parent table, and which one belongs to a shard table is not known",
            "add it by hand, table by table",
        )


def _waits(parsed: Ddl, found: list[Token]) -> bool:
    """MariaDB's WAIT n or NOWAIT behind the table's name."""
    behind = next((token for token in found if token.start >= parsed.tables[0].end), None)
    return behind is not None and behind.is_word("WAIT", "NOWAIT")


def _begins(clause: tuple[Token, ...], *words: str) -> bool:
    return len(clause) >= len(words) and all(token.is_word(word) for token, word in zip(clause, words, strict=False))


def _removed(parsed: Ddl) -> str:
    if any(_begins(clause, "DROP", "PARTITION") for clause in parsed.clauses):
        return "the rows of the partitions that are dropped"
    if any(_begins(clause, "DROP", "SYSTEM") for clause in parsed.clauses):
        return "the history of the rows"
    return "rows, by one of its clauses" if takes_rows(parsed) else ""


def _refused(why: str, way_out: str) -> PreflightError:
    return PreflightError(f"the statement is not run over shard tables: {why}", hint=way_out)
