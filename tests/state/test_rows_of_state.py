"""The smaller state tables: what is put in comes out, and what contradicts is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, PreflightError, StopError
from migrate.model.table import Column, Kind, Table
from migrate.state import migration as migrations
from migrate.state import phase, position, schema_history, schema_history_reader, stop_reason
from migrate.state.migration import Migration, Topic
from migrate.state.phase import Phase, TablePhase
from migrate.state.position import Position, from_timestamp
from tests.helpers import plain_table, unique

POSITION = Position(
    "main", "db:3306", 4294967295, "uuid", 3_999_999_999, 1, "binlog.1000000", 2**40, "0-1-2,1-1-3", None, 2**63
)

LEAP_DAY = datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC).replace(tzinfo=None)  # as the server gives it: UTC, unmarked


@pytest.fixture
def name() -> str:
    return unique("m")


def test_a_position_comes_back_as_it_was_saved_and_the_last_one_counts(state: sa.Engine, name: str) -> None:
    moved = replace(POSITION, file="binlog.1000001", pos=4, event_time=LEAP_DAY, batch=2**63 + 1)
    with state.begin() as connection:
        assert position.load(connection, name, "main") is None
        position.save(connection, name, POSITION)
        assert position.load(connection, name, "main") == POSITION
        position.save(connection, name, moved)
        position.save(connection, name, replace(POSITION, source="other"))
        assert position.load(connection, name, "main") == moved
        assert position.load(connection, unique("other"), "main") is None


def test_event_times_are_utc_and_artificial_events_have_none() -> None:
    assert from_timestamp(0) is None
    assert from_timestamp(1_709_168_523) == LEAP_DAY


def test_a_migration_is_made_once_and_keeps_the_newest_config(state: sa.Engine, name: str) -> None:
    made = Migration(name, (Topic("topic", "id", 4), Topic("more", "other id", 2)))
    with state.begin() as connection:
        assert migrations.find(connection, name) is None
        with pytest.raises(PreflightError, match=f"migration '{name}' is not there yet") as caught:
            migrations.get(connection, name)
        assert caught.value.hint == "run `migrate init` first"
        migrations.create(connection, made, "first: ${PW}")
        migrations.create(connection, made, "second: ${PW}")
        assert migrations.get(connection, name) == made
        config = connection.execute(
            sa.select(migrations.table.c.config).where(migrations.table.c.name == name)
        ).scalar_one()
    assert config == "second: ${PW}"


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (Topic("topic", "new", 4), "topic topic is not the one this migration began with (id id, now new)"),
        (Topic("topic", "id", 8), "topic topic has 8 partitions, the migration began with 4"),
        (Topic("more", "other id", 3), "topic more has 3 partitions, the migration began with 2"),
    ],
)
def test_a_topic_made_anew_or_with_other_partitions_is_refused(
    state: sa.Engine, name: str, seen: Topic, message: str
) -> None:
    made = Migration(name, (Topic("topic", "id", 4), Topic("more", "other id", 2)))
    with state.begin() as connection:
        migrations.create(connection, made, "")
        with pytest.raises(PreflightError) as caught:
            migrations.create(connection, Migration(name, (seen,)), "")
    assert message in caught.value.message


def test_topics_keep_their_order_and_a_new_one_comes_last(state: sa.Engine, name: str) -> None:
    first, second, third = Topic("b", "1", 2), Topic("a", "2", 1), Topic("0", "3", 1)
    with state.begin() as connection:
        migrations.create(connection, Migration(name, (first, second)), "")
        migrations.create(connection, Migration(name, (third, first, second)), "")
        found = migrations.get(connection, name)
        assert found.topics == (first, second, third)
        assert [(part.topic_id, part.number) for part in found.partitions] == [("1", 0), ("1", 1), ("2", 0), ("3", 0)]
        assert migrations.set_partitions(connection, name, second, 3) == Topic("a", "2", 3)
        assert migrations.get(connection, name).topics == (first, Topic("a", "2", 3), third)
        with pytest.raises(PreflightError, match="topic gone was added after init"):
            found.topic("gone")


def test_each_request_to_drain_is_a_new_one(state: sa.Engine, name: str) -> None:
    with state.begin() as connection:
        migrations.create(connection, Migration(name, (Topic("t", "i", 1),)), "")
        assert migrations.merge_asked(connection, name) == (None, False)
    asked = []
    for _ in range(2):
        with state.begin() as connection:
            migrations.ask_drain(connection, name)
            asked.append(migrations.merge_asked(connection, name)[0])
    assert asked[0] is not None
    assert asked[1] is not None
    assert asked[0] < asked[1]


def test_a_partition_of_the_longest_topic_is_noted(state: sa.Engine, name: str) -> None:
    process = stop_reason.of_partition("t" * 200, 999)
    with state.begin() as connection:
        stop_reason.note(connection, name, process, StopError("why"))
        assert [row[0] for row in stop_reason.every(connection, name)] == [process]


def test_a_halt_is_noted_replaced_and_cleared(state: sa.Engine, name: str) -> None:
    with state.begin() as connection:
        stop_reason.note(connection, name, "consume", StopError("first", hint="h1", code=Code.LOG))
        (first,) = stop_reason.every(connection, name)
        assert first.code == Code.LOG
        stop_reason.note(connection, name, "consume", StopError("x" * 5000 + "é😀", hint=""))
        stop_reason.note(connection, name, "commit", StopError("why", hint="how"))
        found = [(process, reason, hint) for process, reason, hint, *_ in stop_reason.every(connection, name)]
        assert found == [("commit", "why", "how"), ("consume", "x" * 5000 + "é😀", StopError.usual)]
        again = stop_reason.every(connection, name)[1]
        assert again.since == first.since < again.at
        stop_reason.clear(connection, name, "consume")
        assert [row[0] for row in stop_reason.every(connection, name)] == ["commit"]
        assert stop_reason.every(connection, unique("other")) == []


def test_phases_by_table(state: sa.Engine, name: str) -> None:
    table, other = plain_table(), replace(plain_table(), name="u")
    with state.begin() as connection:
        assert phase.get(connection, name, table) == TablePhase(Phase.CREATED, 0, "")
        phase.put(connection, name, table, TablePhase(Phase.COPYING, 1, "a" * 64))
        phase.put(connection, name, table, TablePhase(Phase.COPIED, 2, "b" * 64))
        assert phase.get(connection, name, table) == TablePhase(Phase.COPIED, 2, "b" * 64)
        assert phase.get(connection, name, other).phase is Phase.CREATED
        assert phase.every(connection, name) == {("s", "shop", "t"): Phase.COPIED}


ODD = Table(
    "s",
    "shöp",
    'a`b"c',
    (
        Column("id", "bigint(20) unsigned", Kind.INT, nullable=False),
        Column("é%s", "enum('a','b''c')", Kind.ENUM, "utf8mb4", "utf8mb4_bin", generated=True),
        Column("t", "text", Kind.RAWTEXT, "gbk", "gbk_chinese_ci"),
    ),
    ("id",),
    (("t", "é%s"), ("",)),
)


def test_versions_in_force_are_those_noted_before_the_place(state: sa.Engine, name: str) -> None:
    later = replace(ODD, columns=ODD.columns[:2], unique_keys=())
    odd, ghost = ("shöp", 'a`b"c'), ("shöp", "_t_gho")
    with state.begin() as connection:
        schema_history.add(connection, name, ODD, None, "CREATE TABLE `x` ()")
        first = schema_history.Version(later, "CREATE …", since=Coordinate(1, 12, 500, 0), gtid="u:7")
        gone = schema_history.Version(None, gone=True, since=Coordinate(1, 13, 4, 0))
        away = schema_history.Version(later, "C", holds=odd, unsure="why", since=Coordinate(1, 13, 4, 0))
        for _ in range(2):  # again after a crash: the same
            schema_history.put(connection, name, "s", odd, first, "7/u")
        schema_history.put(connection, name, "s", odd, gone, "7/u")
        schema_history.put(connection, name, "s", ghost, away, "7/u")

        def at(file: int, pos: int, incarnation: int = 1, server: str = "7/u") -> dict[tuple[str, str], object]:
            found = schema_history.in_force(connection, name, "s", Coordinate(incarnation, file, pos, 0), server)
            return {key: version.since and version.since[1:3] for key, version in found.items()}

        begun, altered, renamed = {odd: None}, {odd: (12, 500)}, {odd: (13, 4), ghost: (13, 4)}
        assert at(12, 500) == begun  # the statement itself is still to come
        assert at(12, 501) == at(13, 4) == altered
        assert at(13, 5) == at(1, 4, incarnation=2, server="8/v") == renamed  # another server's log begins anew
        assert at(12, 501, incarnation=2) == altered  # gone back in the same log
        elsewhere = schema_history.in_force(
            connection, name, "s", Coordinate(2, 1, 4, 0), "8/v", lambda gtid: gtid != "u:7"
        )
        assert elsewhere == {odd: gone, ghost: replace(away, table=replace(later, name="_t_gho"))}
        found = schema_history.in_force(connection, name, "s", Coordinate(1, 14, 4, 0), "7/u")
        assert found == {odd: gone, ghost: replace(away, table=replace(later, name="_t_gho"))}
        assert schema_history.latest(connection, name) == {("s", *odd): later}  # no ghosts
        assert schema_history.first(connection, name) == {("s", *odd): ODD}


def test_an_incarnation_begins_with_what_stands_before_its_place(state: sa.Engine, name: str) -> None:
    """Without GTID the place in another server's log tells nothing of what was noted of the old one: times do."""
    odd, made_since = ("shöp", 'a`b"c'), ("shöp", "_t_gho")

    def version(at: int, place: int) -> schema_history.Version:
        return schema_history.Version(ODD, since=Coordinate(1, 12, place, 0), at=at)

    early, long_, late, beyond = version(90, 100), version(80, 200), version(100, 300), version(70, 400)
    by_time = schema_history.ByTime(100, Coordinate(1, 12, 400, 0), frozenset({80}))
    place = Coordinate(2, 3, 50, 0)
    with state.begin() as connection:
        schema_history.add(connection, name, ODD, None)
        for one in (early, long_, late, beyond):
            schema_history.put(connection, name, "s", odd, one, "7/u")
        schema_history.put(connection, name, "s", made_since, late, "7/u")

        def times(at: Coordinate) -> dict[tuple[str, str], int]:
            found = schema_history.in_force(connection, name, "s", at, "8/v")
            return {key: version.at for key, version in found.items() if not version.gone}

        assert times(place) == {odd: 70, made_since: 100}
        behind = schema_history.carry_over(connection, name, "s", place, "8/v", by_time=by_time)
        assert [found.at for key, found in behind if key == odd] == [80, 100, 70]
        assert [found.at for key, found in behind if key == made_since] == [100]
        assert times(place) == {odd: 90}
        again = replace(long_, since=Coordinate(2, 3, 70, 0))
        schema_history.put(connection, name, "s", odd, again, "8/v")
        assert times(place) == {odd: 90}
        assert times(Coordinate(2, 3, 71, 0)) == {odd: 80}
    reading = schema_history_reader.HistoryReader(lambda action: _run(state, action), name)
    places = [since and since[:3] for since, _ in reading.versions()[("s", *odd)]]
    assert places[-3:] == [(1, 12, 400), (2, 3, 49), (2, 3, 70)]  # what a consumer goes by


def _run(state: sa.Engine, action: Callable[[sa.Connection], Any]) -> Any:
    with state.connect() as connection:
        return action(connection)


def test_a_tables_definition_comes_back_equal_and_the_newest_counts(state: sa.Engine, name: str) -> None:
    later = replace(ODD, columns=ODD.columns[:2], unique_keys=())
    with state.begin() as connection:
        assert schema_history.latest(connection, name) == {}
        schema_history.add(connection, name, later, Coordinate(1, 12, 500, 0))
        schema_history.add(connection, name, ODD, None)
        schema_history.add(connection, name, plain_table(), None)
        found = schema_history.latest(connection, name)
    assert found == {("s", "shöp", 'a`b"c'): later, ("s", "shop", "t"): plain_table()}
    assert schema_history.loads("s", "shöp", 'a`b"c', schema_history.dumps(ODD)) == ODD
