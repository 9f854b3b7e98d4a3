"""Preflight against init: what passes is made, and what is refused is refused by both, in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any

import pytest

from migrate.commands.init import initialise
from migrate.model.errors import MigrateError
from migrate.preflight import run as preflight
from migrate.preflight.result import Verdict
from migrate.settings import Settings, parse
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.cases.case import cases
from tests.conftest import FLAVOURS
from tests.helpers import address, raw_settings, scratch
from tests.keys.cases import cases_of as key_cases
from tests.types.matrix import cases_of
from tests.types.special import special_tables
from tests.types.ways import SESSION, wide_tables

_OF_TWO_ROWS = 10
"""Statements of a table of the matrix: the row of NULLs, and one of values."""
_REFUSED = [(flavour, case.name) for flavour in FLAVOURS for case in cases(str(flavour)) if case.refused]


@contextmanager
def source_of(box: Sandbox, statements: Iterator[str]) -> Iterator[str]:
    """A source database after these statements of one session; a target one of that name goes with it."""
    with scratch(box.source, "agree") as source:
        with closing(box.source.connect(source)) as connection, connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)
        try:
            yield source
        finally:
            box.targets[0].execute(f"DROP DATABASE IF EXISTS {source}", f"DROP DATABASE IF EXISTS {source}_state")


def settings_of(box: Sandbox, kafka: KafkaBroker, source: str, *tables: str) -> Settings:
    raw: dict[str, Any] = raw_settings(
        name=source,
        state={**address(box.targets[0]), "database": f"{source}_state"},
        sources=[{"name": "s", **address(box.source)}],
        targets=[{"name": "t0", **address(box.targets[0])}],
        databases={"ds_0": {"target": "t0", "database": source}},
        kafka={"bootstrap": kafka.bootstrap},
        tables=[{"name": f"{source}.{name}", "sharding": {"nodes": f"ds_0.{name}"}} for name in tables],
    )
    return parse(raw, {})


def test_what_preflight_passes_is_made(box: Sandbox, kafka: KafkaBroker) -> None:
    """Every type, also as a key, alone and at both ends of a composite one; and every case that is not refused."""
    flavour = str(box.flavour)
    wide = [*wide_tables(cases_of(flavour)), *special_tables()]
    keys = {f"k{number}": case.type for number, case in enumerate(key_cases(flavour))}
    taken = [case for case in cases(flavour) if not case.refused]
    names = [*(one.name for one in wide), *keys, *(f"{name}_c" for name in keys)]
    names += [name for case in taken for name in case.tables]

    def statements() -> Iterator[str]:
        for case in taken:
            yield from (sql for _, sql in case.statements("prepare"))
            yield "SET SESSION sql_mode = DEFAULT, time_zone = DEFAULT"
        yield from SESSION
        for name, type_ in keys.items():
            yield f"CREATE TABLE {name} (k {type_} NOT NULL PRIMARY KEY, v INT)"
            both = f"a {type_} NOT NULL, m INT NOT NULL, z {type_} NOT NULL"
            yield f"CREATE TABLE {name}_c ({both}, PRIMARY KEY (a, m, z))"
        for one in wide:
            yield one.create
            yield from islice(one.changes(), _OF_TWO_ROWS)

    with source_of(box, statements()) as source:
        settings = settings_of(box, kafka, source, *names)
        report = preflight.run(settings, services=True)
        assert report.problems == []
        assert {one.verdict for one in report.results if one.check == "trial"} == {Verdict.PASS}
        assert initialise(settings).tables_created == len(names)


@pytest.mark.parametrize(("flavour", "name"), _REFUSED, indirect=["flavour"])
def test_what_is_refused_is_refused_by_both_and_by_name(box: Sandbox, kafka: KafkaBroker, name: str) -> None:
    (case,) = (one for one in cases(str(box.flavour)) if one.name == name)
    with source_of(box, (sql for _, sql in case.statements("prepare"))) as source:
        settings = settings_of(box, kafka, source, *case.tables)
        (found,) = preflight.run(settings, services=True).problems
        assert f"{source}.{case.tables[0]}" in found.message
        assert case.refused in found.message
        assert found.mend
        with pytest.raises(MigrateError) as error:
            initialise(settings)
        assert (error.value.message, error.value.hint) == (found.message, found.mend)
