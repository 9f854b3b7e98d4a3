"""Init, tried: a target makes the tables that init would make, in a scratch database, and takes a row of the source's.

By the code that init and the copy use, in their sessions, with the server's own settings: what init would be refused
is refused here. Of tables that are defined alike one is tried at each target. The rows are rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pymysql

from migrate.chunks import line
from migrate.chunks.column_codecs import to_parameters
from migrate.copy import refused_rows
from migrate.model.change import key_json
from migrate.model.errors import MigrateError, ServerError
from migrate.model.words import counted
from migrate.mysql import definition, grants
from migrate.mysql.connection import Connection, Warned
from migrate.mysql.errors import LOAD_FORBIDDEN, explained, number, text
from migrate.mysql.quoting import printed, quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import compared, from_server
from migrate.preflight.capacity.row_sizes import octets
from migrate.preflight.limits import TOO_LONG, limited
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema import trial_computed
from migrate.preflight.schema.scratch import drop_leftover, name_of, scratch
from migrate.preflight.schema.trial_computed import Computed, Raw, differing
from migrate.preflight.server_checks import each
from migrate.settings import Settings
from migrate.target.create import create_own_tables, create_place, own_tables, tables_in
from migrate.target.load import PlaceLoader
from migrate.target.pool import connect_target
from migrate.target.routing import Place, Plan, PlannedTable, TargetDatabase
from migrate.target.rows import PlaceWriter

GRANTS = ("CREATE", "DROP", "SELECT", "INSERT")
_ROW_BYTES = 1_000_000
"""Of a row that is tried, at most."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A source table as its server defines it; values of a row, in the order of `Table.stored`, if it has one; and rows
    with their generated columns, to be computed at a target."""

    planned: PlannedTable
    statement: str
    flavour: str
    row: Raw | None
    computed: Sequence[Computed]

    @property
    def alike(self) -> tuple[str, str]:
        """The same for tables that are defined alike."""
        return self.flavour, definition.create_as(self.statement, "alike")


def sample(connection: Connection, planned: PlannedTable, *, computes: bool = True) -> Sample:
    """What is tried of a table, read at its source. computes: whether its generated columns have the values that a
    session of the service computes. Raises StopError; the driver's error."""
    table = planned.table
    statement = definition.show_create(connection, table.database, table.name)
    fields = ", ".join(map(compared, table.stored))
    size = octets(table)
    where, arguments = and_rows(f"{size} <= {_ROW_BYTES}" if size else "TRUE", [], planned.rows)
    sql = f"SELECT {fields} FROM {full_name(table.database, table.name)} WHERE {where} LIMIT 1"
    row: Raw | None = None
    try:
        row = connection.one(limited(connection, sql), arguments)
    except pymysql.MySQLError as error:
        if number(error) not in TOO_LONG:
            raise
    computed = trial_computed.rows(connection, planned) if computes else []
    return Sample(planned, statement, connection.flavour, row, computed)


def check_target(connection: Connection, plan: Plan, target: str, samples: Sequence[Sample]) -> Iterator[Result]:
    """A problem for each definition or row that the target refuses, else one result that passes; none where init would
    make nothing there. samples: of the tables that init would make."""
    settings, name = plan.settings, name_of(plan.settings.name)
    here = [database for database in plan.used_databases if database.target == target]
    present = {one: tables_in(connection, one.database) for one in here}
    wanted = _distinct(samples, target, present)
    if not wanted and not any(database in here and not _has_own(database, present) for database in here):
        drop_leftover(connection, name)
        return
    if lacking := not_granted(connection, name, GRANTS):
        yield lacking
        return
    began, fine = time.monotonic(), True
    with scratch(connection, name), closing(_session(settings, target, name)) as one:
        with explained(f"{connection.name}: the service's own tables"):
            create_own_tables(one)
        trial = _Trial(settings, one, TargetDatabase("trial", target, name))
        for found in each(one, "trial", wanted, trial.run, lambda items: items[0].planned.table.full_name):
            fine = False
            yield found
    if fine:
        seconds = time.monotonic() - began
        told = f"creates the tables as init would, and takes a row of each: {counted(len(wanted), 'definition')} tried"
        yield Result("trial", target, Verdict.PASS, f"{connection.name}: {told} in {seconds:.1f} s")


def not_granted(connection: Connection, name: str, wanted: Collection[str]) -> Result | None:
    """What says that the account cannot use a scratch database, and how it may."""
    held = grants.read(connection)
    missing = held.lacking(name, wanted)
    if not missing or held.unclear(name, missing):
        return None
    told = f"{connection.name}: whether init can make its tables was not tried: {held.account} lacks"
    told += f" {', '.join(missing)} on database {name}, which would be there for a moment"
    return Result("trial", connection.name, Verdict.UNKNOWN, told, held.mend(name, missing))


def _session(settings: Settings, target: str, name: str) -> Connection:
    return connect_target(settings, target, name, loads=True)


def _has_own(database: TargetDatabase, present: Mapping[TargetDatabase, set[str]]) -> bool:
    return own_tables().keys() <= present[database]


def _distinct(samples: Sequence[Sample], target: str, present: Mapping[TargetDatabase, set[str]]) -> list[list[Sample]]:
    """Of each definition of which the target lacks a table, the source tables that have it."""
    found: dict[tuple[str, str], list[Sample]] = {}
    for one in samples:
        if _missing(one.planned, target, present) is not None:
            found.setdefault(one.alike, []).append(one)
    return [*found.values()]


def _missing(planned: PlannedTable, target: str, present: Mapping[TargetDatabase, set[str]]) -> Place | None:
    return next(
        (one for one in planned.places if one.database.target == target and one.table not in present[one.database]),
        None,
    )


class _Trial:
    """Makes tables in the scratch database of one session."""

    def __init__(self, settings: Settings, connection: Connection, where: TargetDatabase) -> None:
        self._settings = settings
        self._connection = connection
        self._where = where

    def run(self, alike: Sequence[Sample]) -> Iterator[Result]:
        """Problems of a definition, and of a row. Raises the driver's error where it says nothing of either."""
        first = alike[0]
        table = first.planned.table
        real = next(one for one in first.planned.places if one.database.target == self._where.target)
        place = Place(self._where, real.table)
        more = f"; {counted(len(alike) - 1, 'more table')} defined alike" if len(alike) > 1 else ""
        with_row = next((one for one in alike if one.row is not None), None)
        try:
            create_place(self._connection, table, place, first.statement, first.flavour)
            if with_row is not None:
                yield from [*self._rows(with_row, place, real)] or self._computed(with_row, place, real)
        except ServerError:
            raise
        except MigrateError as error:
            told = error.message.replace(str(place), str(real)) + more
            told = told.replace(_named(place), _named(real))
            yield Result("trial", str(real), Verdict.PROBLEM, told, error.given)
        except ValueError as error:  # of one value: the other tables are tried
            told = f"a row of {table.full_name} cannot be read: {type(error).__name__}{more}"
            yield Result("trial", str(real), Verdict.PROBLEM, told, "leave the table out")
        finally:
            if self._connection.open:
                self._connection.query(f"DROP TABLE IF EXISTS {quote(place.table)}")

    def _rows(self, found: Sample, place: Place, real: Place) -> Iterator[Result]:
        """One problem, by the first way that does not take the row."""
        table, row = found.planned.table, found.row or ()
        image = _image(found.planned, row)  # a text that the stream cannot carry is told before a server's words of it
        for way, write in self._ways(found.planned, place.table, row):
            try:
                self._rolled_back(write)
            except (pymysql.MySQLError, Warned) as error:
                if number(error) in LOAD_FORBIDDEN:
                    continue
                if not refused_rows.is_of_a_row(error):
                    raise
                key = key_json(tuple(str(image[name]) for name in table.key))
                told = f"{real} does not take {table.full_name} key {key} by {way}: {text(error)}"
                parks = self._settings.copy_.refused == "park"
                verdict = Verdict.NOTE if parks else Verdict.PROBLEM
                mend = "fix the row, or the setting that the server names; or let the copy set such rows aside:"
                yield Result("trial", str(real), verdict, told, f"{mend} `copy.refused: park`")
                return

    def _computed(self, found: Sample, place: Place, real: Place) -> Iterator[Result]:
        table, name = found.planned.table, place.table
        differs = differing(self._connection, table, found.statement, name, found.computed, self._rolled_back)
        for verdict, told, mend in differs:
            yield Result("trial", str(real), verdict, f"{real} {told}", mend)

    def _rolled_back(self, write: Callable[[], object]) -> None:
        self._connection.raw.begin()
        try:
            write()
        finally:
            if self._connection.open:
                self._connection.raw.rollback()

    def _ways(self, planned: PlannedTable, name: str, row: Raw) -> Iterator[tuple[str, Callable[[], object]]]:
        """As the copy loads, as it inserts, as the stream inserts."""
        table, one = planned.table, self._connection
        writer = PlaceWriter(table, name)
        lines = line.build(table, row)
        if self._settings.copy_.load == "auto" and not line.typed(lines):
            yield "LOAD DATA", lambda: PlaceLoader(table, name).load(one, [(lines, 1)])
        pairs = zip(table.stored, row, strict=True)
        values = [to_parameters(column)([value])[0] for column, value in pairs]
        yield "INSERT", lambda: writer.insert_values(one, [values])
        yield "INSERT", lambda: writer.insert(one, [_image(planned, row)])


def _named(place: Place) -> str:
    """Its database as servers name it in what they say."""
    return printed(place.database.database)


def _image(planned: PlannedTable, row: Raw) -> dict[str, str | None]:
    return {column.name: from_server(column)(value) for column, value in zip(planned.table.stored, row, strict=True)}
