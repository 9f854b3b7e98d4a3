"""Every type that may be in a key through a whole migration: a table for each, alone, first and last in its key.

Rows are written, changed, deleted and given other keys at the source, before the copy and behind it; then each row of
every table is compared by a SELECT of the test's own. Rows are named by `n`, which is in no key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from migrate.commands.refresh import refresh
from migrate.model.table import Kind, Table
from migrate.mysql.connection import Connection
from migrate.mysql.values import parameter, placeholder
from migrate.settings import load_with_text
from migrate.state.database import engine
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.cases.replay import rows_of
from tests.conftest import FLAVOURS
from tests.failover.support import SLOW
from tests.flow.test_chain import Step
from tests.forked import Migration
from tests.helpers import catalog_table, session, unique
from tests.keys.cases import KeyCase, cases_of

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
_PLACES = {"alone": "k", "first": "k, m", "last": "m, k"}
_MORE = "delay: {tiers_seconds: [0.5, 1]}\nverify: {rechecks: 1, recheck_seconds: 0.1}\n"
_AGAIN, _MOVED = 100, 200
"""Numbers of rows that take a deleted row's key, and that take each other's."""


@dataclass
class Cell:
    """A type at one place of the key, in a database of the source; `texts` are keys of its rows, `free` is no row's."""

    one: Connection
    table: Table
    case: KeyCase

    @property
    def texts(self) -> tuple[str, ...]:
        return self.case.texts[:-1]

    @property
    def free(self) -> str:
        return self.case.texts[-1]

    def sql(self, statement: str, *arguments: object) -> None:
        """`{t}` is the table, `{k}` stands for the key's value."""
        text = statement.format(t=self.table.name, k=placeholder(self.table.by_name["k"]))
        column = self.table.by_name["k"]
        with self.one.lax() if column.kind is Kind.ENUM else nullcontext():
            self.one.execute(text, [self._value(one) if isinstance(one, str) else one for one in arguments])

    def _value(self, text: str) -> object:
        return parameter(self.table.by_name["k"])(text)

    def insert(self, *numbers: int) -> None:
        for number in numbers:
            self.sql("INSERT INTO {t} (k, m, n, v) VALUES ({k}, 1, %s, 0)", self.texts[number], number)

    def early(self) -> None:
        """Between init and the copy: what the stream finds absent, or brings before the copy does."""
        self.sql("UPDATE {t} SET v = 7 WHERE n = 0")
        self.sql("DELETE FROM {t} WHERE n = 2")

    def live(self) -> None:
        self.insert(*range(1, len(self.texts), 2))
        self.sql("UPDATE {t} SET v = v + 1")
        self.sql("UPDATE {t} SET k = {k} WHERE n = 1", self.free)
        for ours, theirs in self.case.same:
            if ours in self.texts:  # another text, and the same key
                self.sql("UPDATE {t} SET k = {k}, v = v + 10 WHERE n = %s", theirs, self.texts.index(ours))
        self.sql("DELETE FROM {t} WHERE n = 0")
        self.sql("INSERT INTO {t} (k, m, n, v) VALUES ({k}, 1, %s, 3)", self.texts[0], _AGAIN)
        if len(self.texts) > 2:
            self.sql("INSERT INTO {t} (k, m, n, v) VALUES ({k}, 1, %s, 4)", self.texts[2], _MOVED)
            self.sql("DELETE FROM {t} WHERE n = %s", _AGAIN)
            self.sql("UPDATE {t} SET k = {k} WHERE n = %s", self.texts[0], _MOVED)


def cells(one: Connection, database: str, flavour: Flavour) -> Iterator[Cell]:
    for number, case in enumerate(cases_of(str(flavour))):
        for place, key in _PLACES.items():
            name = f"k{number}_{place}"
            columns = f"k {case.type} NOT NULL, m INT NOT NULL, n INT NOT NULL, v INT NOT NULL"
            one.query(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))")
            yield Cell(one, catalog_table(one, database, name), case)


def differing(
    source: tuple[DatabaseServer, str], target: tuple[DatabaseServer, str], made: list[Cell]
) -> dict[str, str]:
    """By table, of which type its key is, and the rows that only one side has."""
    found = {}
    for cell in made:
        ours, theirs = (rows_of(*side, cell.table.name) for side in (source, target))
        if ours != theirs:
            only = [row for row in (*ours, *theirs) if (row in ours) is not (row in theirs)]
            found[cell.table.name] = f"{cell.case.type}: {only}"[:500]
        assert len(ours) > 1, cell.table.name
    return found


@pytest.mark.parametrize("flavour", FLAVOURS, indirect=True)
def test_every_key_comes_through_stream_copy_and_repair(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    """A change that named another row, or none, by its key: a key that two servers write, compare or pad each their
    own way."""
    name = unique("keys")
    source = (box.source, f"{name}_src")
    box.source.execute(f"CREATE DATABASE {source[1]} CHARACTER SET utf8mb4")
    with ExitStack() as stack:
        one = stack.enter_context(session(*source))
        made = list(cells(one, source[1], box.flavour))
        for cell in made:
            cell.insert(*range(0, len(cell.texts), 2))
        step = stack.enter_context(closing(Step(box, kafka, tmp_path, name, source, 0, "*", "ds.{table}", _MORE)))
        migration = step.migration
        step.up()
        step.begin("commit", "requeue")
        for cell in made:
            cell.early()
        migration.do("copy")
        for cell in made:
            cell.live()
        migration.ask("drain", "--timeout", "120")
        assert differing(source, step.target, made) == {}
        assert migration.ask("verify")["differences"] == 0

        server, there = step.target
        for cell in made:
            server.execute(
                f"UPDATE {cell.table.name} SET v = 99 WHERE n = 1",
                f"DELETE FROM {cell.table.name} WHERE n >= {_AGAIN}",
                database=there,
            )
        found = {one["table"]: one for one in migration.ask("verify", accept=(0, 1))["tables"]}
        assert {name.split(".")[1]: one["differences"] for name, one in found.items()} == {
            cell.table.name: 2 for cell in made
        }
        refreshed(migration, {name: [key_text(item["key"]) for item in one["named"]] for name, one in found.items()})
        assert differing(source, step.target, made) == {}


def key_text(parts: list[str]) -> str:
    """As a person types what a command printed."""
    return parts[0] if len(parts) == 1 else json.dumps(parts)


def refreshed(migration: Migration, keys: dict[str, list[str]]) -> None:
    """Of some tables at a time, as `migrate refresh` does it; until their rows are written."""
    settings, _ = load_with_text(migration.config, migration.environment)
    state = engine(settings.state)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(refresh, settings, state, *one, None, SLOW) for one in keys.items()]
        assert {one.result() for one in asked} == {2}
    state.dispose()
