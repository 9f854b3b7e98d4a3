"""A table of each type that may be in a key, alone and at both ends of a composite one, laid out at both sides.

Source and target are two databases of one server, so that one statement fills both. Rows are also numbered, in the
order of their keys, by a column `n` that is in no key: what a test does to a row by hand names it by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass

from migrate.chunks.sessions import Sessions
from migrate.model.change import Key
from migrate.model.message import Row
from migrate.model.table import Kind, Table
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote, quote_all
from migrate.mysql.values import compared, from_server, parameter, placeholder
from migrate.settings import Settings, parse
from migrate.target.routing import Plan, PlannedTable
from migrate.verify.chunk_check import CheckJob, check_chunk
from migrate.verify.table_check import TableCheck
from migrate.verify.verified import TableVerified
from sandbox.stack import Sandbox
from tests.helpers import address, catalog_table, raw_settings, scratch, session
from tests.keys.cases import KeyCase

PAGE = 6
"""Rows of a chunk."""
_ENDS = 5
"""Texts at each end of a composite key: the middle of the case's, where its neighbours are."""


@dataclass(frozen=True)
class Laid:
    """One table at both sides, with a row for each of `keys`; `one` is a session in the target's database."""

    one: Connection
    settings: Settings
    planned: PlannedTable
    source: str
    target: str
    keys: tuple[Key, ...]

    @property
    def table(self) -> Table:
        return self.planned.table

    def row(self, number: int, v: str = "0") -> Row:
        """The row of a key, as a row image."""
        key = dict(zip(self.table.key, self.keys[number], strict=True))
        return {**key, "n": str(number), "v": v}

    def restore(self) -> None:
        """The target's rows as the source's are."""
        names = quote_all(column.name for column in self.table.stored)
        self.one.query(f"DELETE FROM {self.target}.t")
        self.one.query(f"INSERT INTO {self.target}.t ({names}) SELECT {names} FROM {self.source}.t")

    def values(self) -> dict[int, int]:
        """`v` of each row of the target, by its number."""
        return {int(number): int(v) for number, v in self.one.query("SELECT n, v FROM t")}


@contextmanager
def sides(box: Sandbox) -> Iterator[tuple[Connection, str, str]]:
    """A session and two databases on one server."""
    server = box.targets[0]
    with ExitStack() as stack:
        source, target = (stack.enter_context(scratch(server, f"keys_{side}")) for side in ("source", "target"))
        yield stack.enter_context(session(server, target)), source, target


def lay(box: Sandbox, one: Connection, source: str, target: str, case: KeyCase, *, composite: bool) -> Laid:
    """The table of a case in both databases, instead of one that was there."""
    columns, key = f"k {case.type} NOT NULL", "k"
    if composite:
        columns, key = f"a {case.type} NOT NULL, m INT NOT NULL, z {case.type} NOT NULL", "a, m, z"
    keys = _composite(case.texts) if composite else tuple((text,) for text in case.texts)
    definition = f"{columns}, n INT NOT NULL, v INT NOT NULL, PRIMARY KEY ({key})"
    return lay_rows(box, one, source, target, definition, keys)


def lay_rows(box: Sandbox, one: Connection, source: str, target: str, definition: str, keys: Sequence[Key]) -> Laid:
    """The table `t` in both databases, with rows of these keys."""
    for database in (source, target):
        one.query(f"DROP TABLE IF EXISTS {database}.t")
    one.query(f"CREATE TABLE {source}.t ({definition})")
    one.query(f"CREATE TABLE {target}.t LIKE {source}.t")
    table = catalog_table(one, source, "t")
    _fill(one, table, keys)
    settings = _settings(box, source, target)
    laid = Laid(one, settings, Plan(settings, {table.id: table}).tables[table.id], source, target, tuple(keys))
    laid.restore()
    return laid


def verified(laid: Laid, meanwhile: Callable[[], None] = lambda: None) -> TableVerified:
    """The table as `migrate verify` compares it, chunk by chunk. meanwhile: done when every chunk was compared."""
    with closing(Sessions(laid.settings)) as sessions:
        check = TableCheck(laid.settings, (laid.planned,), sessions, sleep=lambda seconds: None)
        job = CheckJob(laid.settings, check.tables)
        while wave := check.wave(8):
            check.settle([check_chunk(job, chunk) for chunk in wave])
        meanwhile()
        return check.finish()


def key_texts(one: Connection, table: Table, tail: str) -> list[Key]:
    """The keys of the source's rows."""
    columns = table.key_columns
    fields, readers = ", ".join(map(compared, columns)), [from_server(column) for column in columns]
    rows = one.query(f"SELECT {fields} FROM {table.database}.t {tail}")
    return [tuple(str(read(value)) for read, value in zip(readers, row, strict=True)) for row in rows]


def _composite(texts: Sequence[str]) -> tuple[Key, ...]:
    start = max(0, (len(texts) - _ENDS) // 2)
    few = texts[start : start + _ENDS]
    return tuple((first, middle, last) for first in few for middle in ("1", "2") for last in few)


def _fill(one: Connection, table: Table, keys: Sequence[Key]) -> None:
    """By one statement, without strict mode where a key has an ENUM's error value."""
    columns = table.key_columns
    marks = f"({', '.join(map(placeholder, columns))}, %s, 0)"
    converts = [parameter(column) for column in columns]
    arguments: list[object] = []
    for number, key in enumerate(keys):
        arguments += [convert(text) for convert, text in zip(converts, key, strict=True)]
        arguments.append(number)
    names = ", ".join(map(quote, (*table.key, "n", "v")))
    statement = f"INSERT INTO {table.database}.t ({names}) VALUES {', '.join([marks] * len(keys))}"
    with one.lax() if any(column.kind is Kind.ENUM for column in columns) else nullcontext():
        one.execute(statement, arguments)


def _settings(box: Sandbox, source: str, target: str) -> Settings:
    server = address(box.targets[0])
    raw = raw_settings(
        name=target,
        state={**server, "database": target},
        sources=[{"name": "s", **server}],
        targets=[{"name": "t0", **server}],
        databases={"ds_0": {"target": "t0", "database": target}},
        tables=[{"name": f"{source}.t", "sharding": {"nodes": "ds_0.t"}}],
        verify={"chunk_rows": PAGE, "rechecks": 1, "recheck_seconds": 0.1},
    )
    return parse(raw, {})
