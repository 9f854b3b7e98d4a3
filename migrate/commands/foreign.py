"""`migrate foreign`: writes that no stream carries. They are listed, compared, and carried or discarded by a person.

Each was made at a side while that was standby, by somebody else than the stream that writes there; or a stream had it
for a side that was active by then. Either way the two sides may differ in that row, and nothing settles which is right.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.chunks.sessions import Sessions
from migrate.commands.foreign_carry import Carrier
from migrate.commands.typed_keys import typed_keys
from migrate.cutover.catch_up import pass_up_to
from migrate.cutover.reverse_settings import reversed_settings
from migrate.model.change import Key, key_json, stored
from migrate.model.errors import Code, ConfigError, PreflightError, StopError
from migrate.model.times import in_utc
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.state import foreign, leading, position
from migrate.state import migration as migrations
from migrate.state.foreign import ForeignWrite, Kind
from migrate.target.home import named
from migrate.target.refresh_request import bring
from migrate.target.routing import Plan, PlannedTable
from migrate.target.stored_plan import stored_plan
from migrate.verify.catch_up import CatchUp
from migrate.verify.difference import judge
from migrate.verify.lookup import look_up
from migrate.verify.recheck import hurrier

_CHECKS_SECONDS = (0.0, 0.3, 0.6, 1.2)
"""Before each comparison of a key that differs: the stream that leads may be bringing it."""


KINDS = {
    Kind.FOREIGN.value: "written there while it was standby",
    Kind.LATE.value: "came after the switch",
    Kind.UNREAD.value: "a lost server may have it",
}


@dataclass(frozen=True)
class Stream:
    """One of the two streams, with what it lists."""

    settings: Settings
    plan: Plan
    side: str  # that it reads, and at which its foreign writes were made

    @property
    def name(self) -> str:
        return self.settings.name


def streams(settings: Settings, state: sa.Engine) -> list[Stream]:
    """The forward stream, and the reverse one where it is there. settings: of the forward stream."""
    forward = stored_plan(settings, state)
    found = [Stream(position.where_read(state, settings), forward, "source")]
    with state.connect() as connection:
        there = migrations.find(connection, migrations.other_way(connection, settings.name)) is not None
    if there:
        with suppress(ConfigError, PreflightError):  # tables came or went, or have no reverse stream any more
            back = reversed_settings(settings, forward)
            found.append(Stream(position.where_read(state, back), stored_plan(back, state), "target"))
    return found


def listed(settings: Settings, state: sa.Engine, most: int | None = None) -> list[dict[str, object]]:
    """Every key that is listed, as `--json` has it. settings: of the forward stream."""
    found: list[dict[str, object]] = []
    with state.connect() as connection:
        reverse = migrations.other_way(connection, settings.name)
        for name, side in ((settings.name, "source"), (reverse, "target")):
            found += [
                {
                    "side": side,
                    "server": one.id[0],
                    "table": f"{one.id[1]}.{one.id[2]}",
                    "key": None if one.key is None else list(one.key),
                    "kind": one.kind.value,
                    "coordinate": list(stored(one.origin)),
                    "seen": in_utc(one.seen) if one.seen else "",
                }
                for one in foreign.every(connection, name, most)
            ]
    return found


# -- comparing


def compare(settings: Settings, state: sa.Engine) -> int:
    """Compare every listed key at both sides, and strike out those that are equal; how many are left.

    Raises: ServerError when a server does not answer.
    """
    both = streams(settings, state)
    leader = _leading(both, state)
    for stream in both:
        with state.connect() as connection:
            every = foreign.every(connection, stream.name)
        if gone := [one for one in every if _is_gone(stream, one)]:
            with state.begin() as connection:
                foreign.settle(connection, stream.name, gone)
        if found := [one for one in every if one.key is not None and not _is_gone(stream, one)]:
            _compare(stream, leader or stream, state, found)
    with state.connect() as connection:
        return foreign.count_both(connection, settings.name)


def _compare(stream: Stream, leader: Stream, state: sa.Engine, found: Sequence[ForeignWrite]) -> None:
    """leader: judges, as only the stream that leads knows where a row belongs at the side where it was written."""
    with closing(Sessions(leader.settings)) as sessions, explained("a comparison of foreign writes"):
        for pause in _CHECKS_SECONDS:
            time.sleep(pause)
            equal: list[ForeignWrite] = []
            for some in _by_table(found):
                planned = _of_leader(leader, stream, some[0])
                seen = look_up(sessions, tuple(leader.plan.members(planned)), [_key(one) for one in some])
                equal += [one for one in some if judge(seen[_key(one)]) is None]
            if equal:
                with state.begin() as connection:
                    foreign.settle(connection, stream.name, equal)
            struck = {(one.id, one.key) for one in equal}
            found = [one for one in found if (one.id, one.key) not in struck]
            if not found:
                break


def _is_gone(stream: Stream, one: ForeignWrite) -> bool:
    """Whether its table is no longer in the migration."""
    return one.id not in stream.plan.tables


def _by_table(found: Iterable[ForeignWrite]) -> Iterable[list[ForeignWrite]]:
    tables: dict[tuple[str, str, str], list[ForeignWrite]] = {}
    for one in found:
        tables.setdefault(one.id, []).append(one)
    return tables.values()


# -- settling


def chosen(
    settings: Settings, state: sa.Engine, name: str | None, keys: Sequence[str], server: str | None
) -> list[tuple[Stream, ForeignWrite]]:
    """The listed keys of a table as the list names it, or only these of it; without a table, all.

    Raises: ConfigError for what is not listed.
    """
    found: list[tuple[Stream, ForeignWrite]] = []
    for stream in streams(settings, state):
        with state.connect() as connection:
            every = [one for one in foreign.every(connection, stream.name) if not _is_gone(stream, one)]
        found += [
            (stream, one)
            for one in every
            if name is None or (f"{one.id[1]}.{one.id[2]}" == name and server in (None, one.id[0]))
        ]
    if name is not None and not found:
        raise ConfigError(f"no write to {name} is listed", hint="`migrate foreign list` has the names")
    if len(where := {(stream.name, one.id) for stream, one in found}) > 1 and name is not None:
        servers = ", ".join(sorted(id_[0] for _, id_ in where))
        raise ConfigError(f"several servers have {name}", hint=f"choose one with --server: {servers}")
    if not keys:
        return found
    stream, first = found[0]
    wanted = set(typed_keys(stream.settings, state, stream.plan, stream.plan.tables[first.id], keys))
    if unknown := wanted - {one.key for _, one in found}:
        raise ConfigError(f"{name} key {key_json(min(unknown))} is not listed", hint="`migrate foreign list`")
    return [(stream, one) for stream, one in found if one.key in wanted]


def discard(
    settings: Settings, state: sa.Engine, wanted: Sequence[tuple[Stream, ForeignWrite]], timeout_seconds: float
) -> int:
    """Let the standby side have these rows as the active one has them; how many keys differ still afterwards.

    The stream that leads refreshes them. Raises: PreflightError in a cutover, StopError, ServerError.
    """
    leader, wanted = _leader(settings, state), _keyed(wanted)
    rows: dict[tuple[str, str, str], list[Key]] = {}
    for stream, one in wanted:
        planned = _of_leader(leader, stream, one)
        rows.setdefault(planned.table.id, []).append(_key(one))
    for id_, keys in rows.items():
        bring(leader.settings, state, leader.plan.tables[id_], keys, timeout_seconds)
    return compare(settings, state)


def carry(
    settings: Settings, state: sa.Engine, wanted: Sequence[tuple[Stream, ForeignWrite]], timeout_seconds: float
) -> int:
    """Write these rows at the active side as the standby one has them now; how many keys differ still afterwards.

    What the active side has in them must have come to the standby one before, within the timeout, and not change until
    the write: it would be lost. Rows that are equal by then are left alone. The write is not marked as ours, so the
    stream that leads takes it for an application's and carries it back. Raises: PreflightError where the side of a
    write is the active one by now, where a row changes meanwhile, or in a cutover; StopError, ServerError.
    """
    leader, wanted = _leader(settings, state), _keyed(wanted)
    count = compare(settings, state)
    wanted = left(state, wanted)
    for stream, one in wanted:
        if stream.name == leader.name:
            raise PreflightError(
                f"{one.id[1]}.{one.id[2]} was written at the side that is active now: it is not carried",
                hint="`migrate foreign discard` gives the standby side the row as it is there",
            )
    if not wanted:
        return count
    stream = wanted[0][0]  # the one that does not lead
    _refuse_of_a_node(stream, state, wanted)
    with closing(Carrier(stream.settings, stream.plan, state)) as carrier:
        carrier.look(_rows(stream, wanted))
        _let_pass(leader, state, timeout_seconds)
        compare(settings, state)
        listed = {(planned.table.id, key) for planned, key in _rows(stream, left(state, wanted))}
        carrier.carry([row for row in _rows(stream, wanted) if (row[0].table.id, row[1]) in listed])
    return compare(settings, state)


def _rows(stream: Stream, wanted: Sequence[tuple[Stream, ForeignWrite]]) -> list[tuple[PlannedTable, Key]]:
    """Each row once, in the order of its changes: a row that two tables of a group list, or two places, is one."""
    found: dict[tuple[object, Key], tuple[PlannedTable, Key]] = {}
    for _, one in sorted(wanted, key=lambda pair: (pair[1].id[0], stored(pair[1].origin))):
        planned, key = stream.plan.leader(stream.plan.tables[one.id]), _key(one)
        found.setdefault((planned.group or planned.table.id, key), (planned, key))
    return list(found.values())


def _refuse_of_a_node(stream: Stream, state: sa.Engine, wanted: Sequence[tuple[Stream, ForeignWrite]]) -> None:
    """Raise PreflightError for a row that was written at another node of a broadcast table than the first: what is
    carried is as the first one has it."""
    with state.connect() as connection:
        every = {(one.id, one.key) for one in foreign.every(connection, stream.name)}
    for _, one in wanted:
        first = stream.plan.tables[one.id].mirror_of
        if first is not None and (first, one.key) not in every:
            raise PreflightError(
                f"{one.id[1]}.{one.id[2]} key {key_json(_key(one))} was written at this node of a broadcast table, and"
                f" not at the first one, {named(first)}",
                hint="write the same there, and carry that; or `migrate foreign discard` gives each node the row as the"
                " active side has it",
            )


def left(state: sa.Engine, wanted: Sequence[tuple[Stream, ForeignWrite]]) -> list[tuple[Stream, ForeignWrite]]:
    """Those that are listed still."""
    with state.connect() as connection:
        left = {
            (name, one.id, one.key)
            for name in {stream.name for stream, _ in wanted}
            for one in foreign.every(connection, name)
        }
    return [(stream, one) for stream, one in wanted if (stream.name, one.id, one.key) in left]


def _let_pass(leader: Stream, state: sa.Engine, seconds: float) -> None:
    """Until the standby side has what the active one has now. Raises ServerError where that takes longer."""
    catch_up = CatchUp(leader.settings, state, [source.name for source in leader.settings.sources])
    hurrier(leader.settings, state)(seconds)
    pass_up_to(catch_up, seconds, f"the stream from the {leader.side}s")


def _leader(settings: Settings, state: sa.Engine) -> Stream:
    """The stream that reads the active side."""
    with state.connect() as connection:
        leading.refuse_in_cutover(connection, settings.name)
    if (found := _leading(streams(settings, state), state)) is None:
        raise PreflightError("the stream that leads is not ready for these tables", hint="`migrate --reverse init`")
    return found


def _leading(both: Iterable[Stream], state: sa.Engine) -> Stream | None:
    """Of the two streams the one that reads the active side; None where it is not ready for these tables."""
    with state.connect() as connection:
        return next((one for one in both if leading.leads(connection, one.name)), None)


def _of_leader(leader: Stream, stream: Stream, one: ForeignWrite) -> PlannedTable:
    """The table of the leading stream whose rows come to the table that a write was made to."""
    if stream.name == leader.name:
        return stream.plan.leader(stream.plan.tables[one.id])
    where = stream.settings.source(one.id[0]).address.lower(), one.id[1], one.id[2]
    for planned in leader.plan.tables.values():
        for place in planned.places if planned.mirror_of is None else ():
            target = place.database.target
            named = leader.side == "target" and target == one.id[0]  # its targets have the sources' names
            address = leader.settings.target(target).address.lower()
            if (named or address == where[0]) and (place.database.database, place.table) == where[1:]:
                return planned
    raise StopError(
        f"{one.id[1]}.{one.id[2]} is no target table of the stream that leads", hint="`migrate status`", code=Code.KEY
    )


def _keyed(wanted: Sequence[tuple[Stream, ForeignWrite]]) -> list[tuple[Stream, ForeignWrite]]:
    """Without tables that are listed as a whole. Raises PreflightError where there is nothing else."""
    keyed = [(stream, one) for stream, one in wanted if one.key is not None]
    if wanted and not keyed:
        _key(wanted[0][1])
    return keyed


def _key(one: ForeignWrite) -> Key:
    if one.key is None:
        raise PreflightError(
            f"every row of {one.id[1]}.{one.id[2]} counts as written: by TRUNCATE, or in more than"
            f" {foreign.MOST:,} keys",
            hint="`migrate verify --repair`, all tables, gives the standby side the rows as the active one has them",
        )
    return one.key
