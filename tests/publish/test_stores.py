"""Positions come back as they were stored, or what is wrong with them is named; never half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from publishing import Publishing

from migrate.model.errors import ServerError, StopError
from migrate.publish.position_store import FileStore, MemoryStore, store_of
from migrate.state.position import Position
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.helpers import make_settings

AT = datetime(2024, 2, 29, 1, 2, 3)  # noqa: DTZ001 - UTC, as the state has it
FIRST = Position("main", "db:3306", 1, "uuid", 9, 1, "binlog.000001", 4, "0-1-2", AT, 7, 1_700_000_000)
SECOND = replace(FIRST, file="binlog.1000000", pos=2**40, event_time=None, batch=8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "below" / "m.main.position"


def test_a_position_comes_back_from_its_file(path: Path) -> None:
    store = FileStore(path)
    assert store.load(None) is None
    for position in (FIRST, SECOND):
        store.save(position)
        assert FileStore(path).load(SECOND) == position
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_torn_anywhere_or_changed_anywhere_is_named(path: Path) -> None:
    FileStore(path).save(FIRST)
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(StopError, match=f"position file {path} is torn or changed"):
            FileStore(path).load(FIRST)
    for at in range(len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StopError, match="is torn or changed"):
            FileStore(path).load(FIRST)
    path.write_bytes(whole)
    assert FileStore(path).load(FIRST) == FIRST


def test_a_file_that_is_gone_is_named_and_the_state_not_taken_instead(path: Path) -> None:
    with pytest.raises(StopError, match=r"is missing; the state database has binlog\.000001:4"):
        FileStore(path).load(FIRST)


def test_a_rewind_in_the_state_counts_more_than_the_file(path: Path) -> None:
    FileStore(path).save(SECOND)
    rewound = replace(FIRST, incarnation=2)
    assert FileStore(path).load(rewound) == rewound


def test_a_save_that_fails_at_any_step_leaves_the_old_position(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each system call of the save is made to fail in turn, as with a full disk."""
    store = FileStore(path)
    store.save(FIRST)
    for name in ("open", "fsync", "replace"):
        with monkeypatch.context() as patched:

            def full(*_args: object, **_more: object) -> None:
                raise OSError(28, "No space left on device")

            patched.setattr(os, name, full)
            with pytest.raises(OSError, match="No space left"):
                store.save(SECOND)
        assert FileStore(path).load(None) == FIRST
    store.save(SECOND)
    assert FileStore(path).load(None) == SECOND


def test_memory_does_not_outlive_its_publisher() -> None:
    assert MemoryStore().load(None) is None
    with pytest.raises(StopError, match="was in the memory of a publisher that is gone"):
        MemoryStore().load(FIRST)


def test_the_config_chooses(tmp_path: Path) -> None:
    made = make_settings(publish={"position_store": "file", "position_directory": str(tmp_path)})
    store = store_of(made, "s")
    store.save(FIRST)
    assert (tmp_path / "m.s.position").exists()
    assert isinstance(store_of(make_settings(publish={"position_store": "memory"}), "s"), MemoryStore)
    assert store_of(make_settings(), "s").load(FIRST) == FIRST


@pytest.fixture
def main(mariadb_box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Publishing]:
    made = Publishing(
        mariadb_box.source,
        mariadb_box.targets[0],
        kafka,
        position_store="file",
        position_directory=str(tmp_path / "positions"),
    )
    yield made
    made.close()


def test_a_publisher_goes_on_from_its_file_and_a_flush_that_fails_is_tried_again(
    main: Publishing, tmp_path: Path
) -> None:
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        main.sql("INSERT INTO t VALUES (1, 'a')")
        main.until_at_end()
        stored = main.position
        (tmp_path / "positions").rename(tmp_path / "away")
        (tmp_path / "positions").write_text("no directory any more")
        main.sql("INSERT INTO t VALUES (2, 'b')")
        main.until(lambda: main.keys() == [1, 2], "the row, which does not wait for that")
        assert main.position == stored
        (tmp_path / "positions").unlink()
        (tmp_path / "away").rename(tmp_path / "positions")
        main.until_at_end()
    assert stored is not None
    main.store(stored)  # the state lost what the file has, and what the broker acknowledged of it
    main.sql("INSERT INTO t VALUES (3, 'c')")
    main.publish(3)
    assert main.effective_keys() == [1, 2, 3]
    assert main.keys() == [1, 2, 2, 3], "what follows the state's position is sent again"


def test_a_state_that_is_behind_the_file_comes_to_the_end_of_an_idle_source(main: Publishing) -> None:
    """Lost: every drain and cutover, until somebody wrote at the source: by the file the publisher was at the end of
    the log, so nothing moved, and the state stayed where it was."""
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        first = main.position
        main.sql("INSERT INTO t VALUES (1, 'a')")
        main.until_at_end()
    assert first is not None
    main.store(first)
    with main.running():
        main.until_at_end()


def test_a_first_position_that_cannot_be_stored_begins_nothing(main: Publishing, tmp_path: Path) -> None:
    """Or a restart would begin anew where the source is then, and skip what is between."""
    (tmp_path / "positions" / f"{main.name}.main.position.new").mkdir(parents=True)  # where it is written first
    with pytest.raises(ServerError, match="where the publisher begins cannot be stored"), main.running():
        pass
    assert main.position is None
