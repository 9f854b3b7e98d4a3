"""`migrate parked`: changes that the target refuses, messages that cannot be applied: list, try again, do without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
import structlog

from migrate.commands import refresh
from migrate.commands.typed_keys import typed_keys
from migrate.kafka.reader import PartitionReader
from migrate.model.change import Key, key_json, stored
from migrate.model.command import Command, Direction
from migrate.model.errors import ConfigError, PreflightError
from migrate.model.partition import Partition, offset_name
from migrate.model.table import TableId
from migrate.model.times import in_utc
from migrate.model.words import counted
from migrate.mysql.errors import explained
from migrate.processes.same_keys import alike_in
from migrate.settings import Settings
from migrate.state import leading, left_out_messages, skipped_key, stop_reason
from migrate.state import migration as migrations
from migrate.target import parked, refresh_request
from migrate.target.parked import Parked
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan, TargetDatabase
from migrate.target.stored_plan import stored_plan

log = structlog.get_logger("migrate.parked")


@dataclass(frozen=True)
class ParkedListing:
    """What is stopped, what shall be set aside if it is refused, what is, and messages that were left out."""

    stopped: list[dict[str, str]]
    skips: list[dict[str, str]]
    parked: list[dict[str, Any]]
    left_out: list[dict[str, Any]]
    drop: str = ""
    """The command that does without what is parked, where the stream only follows."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def listed(settings: Settings, state: sa.Engine) -> ParkedListing:
    """Everything that is refused. Raises PreflightError before init, ServerError."""
    with state.connect() as connection:
        stopped = [
            {"process": one.process, "reason": one.reason, "hint": one.hint, "since": in_utc(one.since)}
            for one in stop_reason.every(connection, settings.name)
            if stop_reason.is_of_consumer(one.process)
        ]
        skips = [
            {"source": one.id[0], "table": f"{one.id[1]}.{one.id[2]}", "key": one.key, "reason": one.reason}
            for one in skipped_key.every(connection, settings.name)
        ]
        names = migrations.get(connection, settings.name).topic_names
        reverse = bool(migrations.reverse_of(connection, settings.name))
        follows = not leading.leads(connection, settings.name)
        messages = [
            {
                "topic": names[one.partition.topic_id],
                "partition": one.partition.number,
                "offset": one.offset,
                "bytes": one.size,
                "refusal": one.refusal,
                "reason": one.reason,
                "since": str(one.since),
            }
            for one in left_out_messages.every(connection, settings.name)
        ]
    found = [
        {
            "place": f"{database.target}/{database.database}.{one.place}",
            "table": f"{one.database}.{one.table}",
            "source": one.source,
            "key": key_json(one.key),
            "coordinate": None if one.copied else tuple(stored(one.origin)),
            "change": "copy" if one.copied else "delete" if one.deletes else "write",
            "refusal": one.refusal,
            "reason": one.reason,
            "since": str(one.since),
        }
        for database, one in _every(settings, state)
    ]
    drop_ = Command(("parked", "drop"), Direction.REVERSE if reverse else None)
    return ParkedListing(stopped, skips, found, messages, str(drop_) if found and follows else "")


def _every(settings: Settings, state: sa.Engine) -> list[tuple[TargetDatabase, Parked]]:
    pool = TargetPool(settings)
    try:
        with explained("targets"):
            return [
                (database, one)
                for database in stored_plan(settings, state).used_databases
                for one in parked.every(pool.get(database), settings.name)
            ]
    finally:
        pool.close()


def set_aside(settings: Settings, state: sa.Engine, name: str, text: str, source: str | None, reason: str) -> Key:
    """Go on without what is refused of a key, now and later. Raises ConfigError for a table or key that is none."""
    _must_say(reason)
    plan = stored_plan(settings, state)
    planned = refresh.find(plan, name, source)
    (key,) = typed_keys(settings, state, plan, planned, [text])
    with state.begin() as connection:
        skipped_key.request(connection, settings.name, planned.table.id, key, reason)
        migrations.ask_retry(connection, settings.name)
    with closing(TargetPool(settings)) as pool, explained("targets"):
        for database in planned.databases:
            parked.give_reason(pool.get(database), settings.name, planned.table, key, reason)
    return key


def _must_say(reason: str) -> None:
    if not reason.strip():
        raise ConfigError("--reason is empty", hint="say why the change is set aside; it is kept and shown")


def leave_out(settings: Settings, state: sa.Engine, topic: str, number: int, offset: int, reason: str) -> None:
    """Let a partition go on behind the message that it is stopped at; its bytes are kept.

    Raises: ConfigError when the partition is not stopped at this message, ServerError.
    """
    _must_say(reason)
    where = offset_name(topic, number, offset)
    with state.connect() as connection:
        known = migrations.get(connection, settings.name)
        stops = {one.process: one for one in stop_reason.every(connection, settings.name)}
    stop = stops.get(stop_reason.of_partition(topic, number))
    if stop is None or stop.message_offset != offset:
        raise ConfigError(f"nothing is stopped at message {where}", hint="`migrate parked list` shows what does")
    with closing(PartitionReader(settings.kafka, f"{settings.group}.parked")) as reader:
        reader.bounds(topic, number)  # says so where no broker answers
        (raw,) = reader.between(topic, number, offset, offset + 1)
    partition = Partition(settings.name, known.topic(topic).id, number)
    with state.begin() as connection:
        left_out_messages.note(connection, partition, offset, raw.value, stop.reason, reason)
        migrations.ask_retry(connection, settings.name)


def retry(
    settings: Settings, state: sa.Engine, name: str | None, keys: Sequence[str], source: str | None, timeout: float
) -> int:
    """Try what is stopped at once, and bring what is parked (of a table and keys, where given) from the source again.

    Returns how many keys were brought; none of a stream that only follows, of which the source is not the truth.
    Raises: ConfigError, PreflightError where something is parked of such a stream, StopError when one is refused again,
    ServerError.
    """
    plan = stored_plan(settings, state)
    wanted = _wanted(settings, state, plan, name, keys, source)
    with state.connect() as connection:
        leads = leading.leads(connection, settings.name)
        sides = leading.sides(connection, settings.name)
    if not leads and (left := _parked_of(settings, state, plan, name, keys, source)):
        (_, database, table), key = left[0]
        raise PreflightError(
            f"{counted(len(left), 'row')} of the {sides.read} {'is' if len(left) == 1 else 'are'} parked, and"
            f" applications are at the {sides.written}: older rows must not overwrite newer ones",
            hint=f"`migrate parked drop {database}.{table} '{key_json(key)}'` drops it; a verification names the row if"
            " it differs",
        )
    with state.begin() as connection:
        _withdraw(connection, plan, wanted)
    if not leads:
        return 0
    for id_, some in wanted.items():
        refresh_request.bring(settings, state, refresh.find(plan, f"{id_[1]}.{id_[2]}", id_[0]), [*some], timeout)
    return sum(map(len, wanted.values()))


def drop(
    settings: Settings, state: sa.Engine, name: str, keys: Sequence[str], source: str | None
) -> list[tuple[TableId, Key]]:
    """Do without what is parked of a table (of keys, where given), of a stream that only follows: the rows that count
    are at the side that it writes to. Returns what was parked.

    Raises: ConfigError, PreflightError for the stream that leads, ServerError.
    """
    plan = stored_plan(settings, state)
    with state.begin() as connection:
        leading.hold(connection, settings.name)
        if leading.leads(connection, settings.name):
            sides = leading.sides(connection, settings.name)
            raise PreflightError(
                f"applications are at the {sides.read}: without it their row would be missing at the {sides.written}",
                hint="`migrate parked retry` applies it once the target accepts it",
            )
        if not (found := _parked_of(settings, state, plan, name, keys, source)):
            what = "these keys of " if keys else ""
            raise ConfigError(f"nothing is parked of {what}{name}", hint="`migrate parked list` shows what is")
        with closing(TargetPool(settings)) as pool, explained("targets"):
            for id_, key in found:
                planned = plan.tables[id_]
                for database in planned.databases:
                    parked.drop(pool.get(database), settings.name, planned.table, key)
                log.warning("dropped what was parked", table=planned.table.full_name, key=list(key))
        _withdraw(connection, plan, {id_: {key: None} for id_, key in found})
    return found


def _parked_of(
    settings: Settings, state: sa.Engine, plan: Plan, name: str | None, keys: Sequence[str], source: str | None
) -> list[tuple[TableId, Key]]:
    """Of which rows something is parked: all, or of a table and keys. Raises ConfigError."""
    found = [(id_, key) for id_, some in _wanted(settings, state, plan, name, (), source).items() for key in some]
    if not keys:
        return found
    wanted = _wanted(settings, state, plan, name, keys, source)
    same = alike_in(plan)
    of = {id_: {one for key in some for one in same(id_, key, _of(found, id_))} for id_, some in wanted.items()}
    return [(id_, key) for id_, key in found if key in of.get(id_, ())]


def _of(found: Iterable[tuple[TableId, Key]], id_: TableId) -> set[Key]:
    return {key for its, key in found if its == id_}


def _wanted(
    settings: Settings, state: sa.Engine, plan: Plan, name: str | None, keys: Sequence[str], source: str | None
) -> dict[TableId, dict[Key, None]]:
    """The keys that are named, else all of which something is parked. Raises ConfigError."""
    if name is not None and keys:
        planned = refresh.find(plan, name, source)
        return {planned.table.id: dict.fromkeys(typed_keys(settings, state, plan, planned, keys))}
    found: dict[TableId, dict[Key, None]] = {}
    for _, one in _every(settings, state):
        id_ = one.source, one.database, one.table
        if id_ in plan.tables and name in (None, f"{one.database}.{one.table}") and source in (None, one.source):
            found.setdefault(id_, {})[one.key] = None
    return found


def _withdraw(connection: sa.Connection, plan: Plan, wanted: Mapping[TableId, Iterable[Key]]) -> None:
    """What is refused of these keys from now on stops their partition again; what is stopped is tried at once."""
    settings, same = plan.settings, alike_in(plan)
    for id_, some in wanted.items():
        known = skipped_key.reasons(connection, settings.name, id_)
        for key in some:
            for one in same(id_, key, known):
                skipped_key.withdraw(connection, settings.name, id_, one)
    migrations.ask_retry(connection, settings.name)
