"""Shard tables named by `--nodes` or `--rule` that belong to a migration which is not finished.

A statement on them would go round what the plan of the migration's table asks for: the publisher's policy (`ddl`), the
order of the sides, the key and the sharding columns. The target databases say which tables a stream fills, also where
the state is another one; the state says which source tables its migrations read, and which migrations are finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from migrate.ddl.problem import Problem
from migrate.ddl.servers import Servers
from migrate.ddl.shards import Shard
from migrate.model.errors import MigrateError
from migrate.model.words import some
from migrate.mysql.connection import Connection
from migrate.mysql.errors import NO_SUCH_TABLE, UNKNOWN_DATABASE, explained, number
from migrate.mysql.identity import server_of
from migrate.mysql.quoting import printed_table
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import position, schema_history
from migrate.state.migration import REVERSE
from migrate.state.switch import Side
from migrate.target.filled import FILLED, filled_by
from migrate.target.roles import ROLE
from migrate.target.stored_plan import stored_plan

_NAMED = 3
_UNTOLD = "writes to its database, and notes no tables there"
_UNTOLD_BACK = f"by its reverse stream {_UNTOLD}"
_NOTED_BY = {_UNTOLD: "migrate init", _UNTOLD_BACK: "migrate --reverse init"}
_SAME_ID = (
    "; a MariaDB server is known by its server_id alone: where this is another one than it reads, give it a server_id"
    " of its own (SET GLOBAL server_id)"
)


class _Reads(NamedTuple):
    """A source table of a migration: whose, and by which server's name in its config."""

    migration: str
    source: str


@dataclass(frozen=True, slots=True)
class _Known:
    """What the state has of its migrations. reads: by server ("server_id/UUID"), database and table; not what a reverse
    stream reads, which its migration writes. tables: the source tables of each migration that is not finished, by their
    full names."""

    finished: frozenset[str] = frozenset()
    reads: Mapping[tuple[str, str, str], _Reads] = field(default_factory=dict)
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)


class _Claim(NamedTuple):
    """A shard table of a live migration, and what that does there. logical: the migration's table, "" where unknown.
    otherwise: a further way out."""

    migration: str
    does: str
    logical: str
    otherwise: str
    shard: Shard


def problems(
    servers: Servers, state: sa.Engine, shards: Sequence[Shard], option: str, load: Callable[[], Settings] | None
) -> tuple[Problem, ...]:
    """One for each migration and table. option: by which the shard tables are named. load: reads the settings of the
    migration in the config file; None where that names no tables. Raises ServerError; DBAPIError where the state cannot
    be read.
    """
    known = _known(state)
    found: list[_Claim] = []
    for (side, server), at in groupby(sorted(shards), key=lambda one: (one.side, one.server)):
        with servers.session(side, server) as session, explained(session.name):
            found += _claims(session, known, [*at])
    own = servers.name if load is not None else ""
    logical: dict[Shard, str] = {}
    if load is not None and own in known.tables and any(one.migration == own for one in found):
        logical = _logical(load, state)
    claims = sorted(one._replace(logical=one.logical or logical.get(one.shard, "")) for one in found)
    told = []
    for (migration, does, table, otherwise), same in groupby(claims, key=lambda one: one[:4]):
        named = [one.shard for one in same]
        what = f"{some([*map(str, named)], _NAMED)}: migration '{migration}' {does}, and is not finished"
        way = _way_out(known, own, migration, table, option, named[0].database)
        if (init := _NOTED_BY.get(does)) is not None:
            way = f"`{init}` of '{migration}' notes its tables (stop its processes for that); or, for these, {way}"
        elif migration == own and logical and not table:
            over = _forget(migration, named[0].database)
            way += f"; where they were taken out of it, in each database that it uses no more: {over}"
        told.append(Problem(what, f"{way}{otherwise}"))
    return tuple(told)


def _known(state: sa.Engine) -> _Known:
    """Nothing where there is no state database, or not its tables."""
    try:
        with state.connect() as connection:
            columns = (migrations.table.c[name] for name in ("name", "finished", "reverse_of"))
            rows = connection.execute(sa.select(*columns)).all()
            live = [str(name) for name, finished, of in rows if finished is None and of is None]
            reads: dict[tuple[str, str, str], _Reads] = {}
            tables: dict[str, list[str]] = {}
            for name in live:
                noted = schema_history.latest(connection, name)
                at = position.load_all(connection, name)
                for (source, database, table), definition in sorted(noted.items()):
                    tables.setdefault(name, []).append(definition.full_name)
                    if (where := at.get(source)) is not None:
                        reads[where.server, database, table] = _Reads(name, source)
            return _Known(frozenset(str(name) for name, finished, _ in rows if finished is not None), reads, tables)
    except DBAPIError as error:
        if error.orig is None or number(error.orig) not in (NO_SUCH_TABLE, UNKNOWN_DATABASE):
            raise
        return _Known()


def _claims(session: Connection, known: _Known, shards: Sequence[Shard]) -> Iterator[_Claim]:
    server = server_of(session)
    ((folds,),) = session.query("SELECT @@GLOBAL.lower_case_table_names")

    def same(name: str) -> str:
        return name.lower() if int(folds) else name

    reads = {(one, same(database), same(table)): by for (one, database, table), by in known.reads.items()}
    read = set()
    for shard in shards:
        if (by := reads.get((server, same(shard.database), same(shard.table)))) is not None:
            read.add((by.migration, shard))
            told = f"reads it as {shard.database}.{shard.table} of source '{by.source}'"
            otherwise = _SAME_ID if server.endswith("/") else ""
            yield _Claim(by.migration, told, f"{shard.database}.{shard.table}", otherwise, shard)
    for database, at in groupby(shards, key=lambda one: one.database):
        named = [*at]
        for stream, places in filled_by(session, database).items():
            migration, untold = stream.removesuffix(REVERSE), _UNTOLD_BACK if stream.endswith(REVERSE) else _UNTOLD
            if migration in known.finished or stream in known.finished:
                continue
            filled = {same(place) for place in places}
            for shard in named:
                if (not places or same(shard.table) in filled) and (migration, shard) not in read:
                    yield _Claim(migration, "writes to it" if places else untold, "", "", shard)


def _logical(load: Callable[[], Settings], state: sa.Engine) -> dict[Shard, str]:
    """The table of the migration in the config file that each of its shard tables is of; none where the config and the
    state do not fit: the refusal then names all of its tables."""
    with suppress(MigrateError):
        return {
            Shard(Side.TARGET, one.database.target, one.database.database, one.table): table.group
            or table.table.full_name
            for table in stored_plan(load(), state).tables.values()
            for one in table.places
        }
    return {}


def _way_out(known: _Known, own: str, migration: str, table: str, option: str, database: str) -> str:
    """own: the migration in the config file. database: of a shard table."""
    tables = known.tables.get(migration, ())
    named = table or some(tables, _NAMED)
    if migration == own and tables:
        return f"leave {option} out and write the statement for {named}: its plan knows what the streams follow"
    told = f"run `migrate ddl` with the config file of '{migration}', without {option}"
    if named:
        return f"{told}, and with the statement for {named}"
    over = _forget(migration, database)
    return f"{told}; where that migration is over, in each such database: {over}"


def _forget(migration: str, database: str) -> str:
    """The statements after which a database does not say any more that a migration writes to it, by either stream."""
    named = (printed_table(database, one) for one in (FILLED, ROLE))
    return "; ".join(f"DELETE FROM {one} WHERE migration IN ('{migration}', '{migration}{REVERSE}')" for one in named)
