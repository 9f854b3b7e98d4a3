"""Lost: messages that the broker had acknowledged and came back without, where another source's took their places while
their own source was quiet: the topic ended as far as before (invariant fence-compares)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from publishing import Publishing

from migrate.kafka.producer import AcknowledgedLost, OrderedProducer
from migrate.model.errors import ServerError
from migrate.model.message import Message, encode
from migrate.publish.state_writes import StateWrites
from migrate.state import acknowledged, reached, switch
from migrate.state.switch import Side, Writes
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox


def write_as(source: str, main: Publishing, count: int, *, file: int = 1) -> None:
    """As the publisher of a source would, into the same partition."""
    producer = OrderedProducer(main.settings.kafka)
    for key in range(count):
        row = Message(
            main.database, "t", "INSERT", ({"id": str(key), "v": source},), source, 1, file, 4, (key,), pk_names=("id",)
        )
        producer.produce(main.settings.topic, 0, encode(row))
    assert producer.flush(20)


def place_in(hint: str) -> tuple[int, int]:
    """File and transaction."""
    place = re.search(r"--from \S+\.(\d+):(\d+)", hint)
    assert place is not None, hint
    return int(place[1]), int(place[2])


def runs_while_another_has_its_place(main: Publishing, end: int) -> None:
    """Raises what the publisher raised."""
    with main.running() as publisher:
        write_as("main", main, 1, file=99)  # sent behind its position, and not acknowledged
        write_as("other", main, 3)
        publisher._acknowledged.ends.all[main.settings.topic, 0] = end
        main.until(lambda: False, "it to stop")


def runs_while_rows_are_lost_and_replaced(main: Publishing, broker: KafkaBroker, aside: Path, *, quiet: bool) -> None:
    """The broker comes back with rows 1 to 3 of 6; raises what the publisher raised. quiet: nothing is written then."""
    with main.running() as publisher:
        main.until(lambda: main.position is not None, "the first position")
        for key in (1, 2, 3):
            main.sql(f"INSERT INTO t VALUES ({key}, 'a')")
        main.until_at_end()
        assert main.keys() == [1, 2, 3]
        broker.kill()
        shutil.copytree(broker.root / "data", aside)
        broker.start()
        for key in (4, 5, 6):
            main.sql(f"INSERT INTO t VALUES ({key}, 'b')")
        main.until_at_end()
        assert main.keys() == [1, 2, 3, 4, 5, 6]
        with publisher._acknowledged._kept._turn:  # no look finds the partition before it is filled again
            broker.kill()
            shutil.rmtree(broker.root / "data")
            shutil.copytree(aside, broker.root / "data")
            broker.start()
            write_as("other", main, 10)
        if not quiet:
            main.sql("INSERT INTO t VALUES (7, 'c')")
        main.until(lambda: False, "it to stop")


def test_an_end_whose_transaction_fails_is_stored_with_the_next_position(
    box: Sandbox, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost: rows that the broker had acknowledged and came back without, where the flush behind them had failed, and
    the one at the publisher's end had stored the position alone: nobody knew how far the topic had been."""
    main, run, failed = Publishing(box.source, box.targets[0], kafka), StateWrites.run, list[str]()

    def failing(writes: StateWrites, action: Callable[[sa.Connection], Any]) -> Any:
        if main.keys() and not failed:
            failed.append("once")
            raise ServerError("the state does not answer")
        return run(writes, action)

    with closing(main):
        with pytest.raises(ServerError, match="the state does not answer"), main.running():  # noqa: PT012
            main.until(lambda: main.position is not None, "the first position")
            monkeypatch.setattr(StateWrites, "run", failing)
            main.sql("INSERT INTO t VALUES (1, 'a')")
            main.until(lambda: failed, "a flush that fails")
        main.until_at_end()
        with main.state.connect() as connection:
            (end,) = acknowledged.load(connection, main.name, "main").values()
        assert end == 1


def test_a_place_that_another_source_has_stops_the_publisher_while_it_is_quiet(
    box: Sandbox, kafka: KafkaBroker
) -> None:
    """As of a partition that was put back while it ran. Costs 5 s."""
    main = Publishing(box.source, box.targets[0], kafka)
    main.raw["consume"] = {"compare_seconds": 0.3}
    with closing(main):
        with main.running() as publisher:
            main.until(lambda: main.position is not None, "the first position")
            main.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
            main.until_at_end()
            write_as("other", main, 3)
            main.sql("INSERT INTO t VALUES (3, 'c')")
            main.until_at_end()
            assert not publisher._acknowledged.ends.lost
            place = main.settings.topic, 0
            ends = publisher._acknowledged.ends.all
            high = ends[place]
        with pytest.raises(AcknowledgedLost):
            runs_while_another_has_its_place(main, high + 2)
        with main.state.connect() as connection:
            (lost,) = reached.lost_since(connection, main.name, None)
        assert (lost.start, lost.end) == (high + 1, high + 2)
        with pytest.raises(AcknowledgedLost) as told, main.running():
            pass
        *_, third = [at for key, at in zip(main.keys(), main.coordinates(), strict=True) if key == 3]
        assert place_in(told.value.hint) == third[1:3]
        with main.state.begin() as connection:
            switch.put(connection, main.name, Side.TARGET, Writes.OPEN)
        with pytest.raises(AcknowledgedLost) as told, main.running():
            pass
        assert "--from" not in told.value.hint, "of a stream that follows it is refused"
        assert "`migrate finish`" in told.value.hint


@pytest.mark.long  # it starts a broker of its own three times
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("quiet", "seconds"), [(True, 0.5), (False, 3600.0)])
def test_messages_that_are_lost_and_replaced_by_another_sources_stop_their_publisher_and_its_next_start_names_a_place(
    mariadb_box: Sandbox, tmp_path: Path, quiet: bool, seconds: float
) -> None:
    """Lost: rows 4 to 6, in no topic and named by no message; a cutover that compares such keys alone switched. A write
    of theirs is looked at once Kafka refuses it, as it misses what was before."""
    broker, aside = KafkaBroker(tmp_path / "broker"), tmp_path / "aside"
    broker.start()
    main = Publishing(mariadb_box.source, mariadb_box.targets[0], broker)
    main.raw["consume"] = {"compare_seconds": seconds}
    with closing(main):
        with pytest.raises(AcknowledgedLost):
            runs_while_rows_are_lost_and_replaced(main, broker, aside, quiet=quiet)
        with main.state.connect() as connection:
            (lost,) = reached.lost_since(connection, main.name, None)
            (cut,) = acknowledged.cuts(connection, main.name, "main").values()
        assert ((lost.start, lost.end), cut) == ((5, 6), 5)
        with pytest.raises(AcknowledgedLost, match=r"ended at offset 5 or before") as told, main.running():
            pass
        assert place_in(told.value.hint) == main.coordinates()[2][1:3]  # of row 3, which the broker still has
        with main.state.connect() as connection:
            assert len(reached.lost_since(connection, main.name, None)) == 1
    broker.kill()
