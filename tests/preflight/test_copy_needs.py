"""Time and space that a copy is to take: of large rows, of targets on one disk, and of tables whose rows are there."""

from __future__ import annotations

from migrate.commands.init import initialise
from migrate.preflight import run as preflight
from migrate.preflight.capacity import retention, space
from migrate.preflight.capacity.volume import BYTES_PER_SECOND, Volume
from migrate.preflight.result import Result, Verdict
from tests.helpers import address, globally, unique
from tests.preflight.support import Case, one, session

_GIB = 1024**3


def told(results: list[Result], check: str) -> list[str]:
    return [result.message for result in results if result.check == check]


def test_a_copy_of_large_rows_takes_as_long_as_their_bytes(case: Case) -> None:
    copy = Volume(rows=1_000, bytes=BYTES_PER_SECOND * 86_400 * 3)  # three days
    with globally(case.box.source, "binlog_expire_logs_seconds", 86_400), session(case.box.source) as connection:
        found = one(retention.check(connection, copy))
    assert (found.verdict, "takes 3 days at 16 MB/s" in found.message) == (Verdict.PROBLEM, True), found.message
    assert one(retention.check_kafka(24, copy)).mend == "kafka.retention_hours: 145"


def test_targets_on_one_server_need_their_space_together(case: Case) -> None:
    disks = {}
    for target, server in (("t0", 0), ("t1", 0), ("t2", 1)):
        with session(case.box.targets[server], f"target '{target}'") as connection:
            disks[target] = space.Disk(space.look(connection).name, None)
    needs = dict.fromkeys(disks, 3 * _GIB)
    first, second = space.check_targets(disks, needs)
    assert first.message.startswith("target 't0' and target 't1', on one disk: needs about 6.0 GiB")
    assert second.message.startswith("target 't2': needs about 3.0 GiB")
    free = {name: space.Disk(disk.name, 5 * _GIB) for name, disk in disks.items()}
    assert [found.verdict for found in space.check_targets(free, needs)] == [Verdict.PROBLEM, Verdict.PASS]

    case.raw["targets"][1] = {"name": "t1", **address(case.box.targets[0])}
    case.raw["databases"]["ds_1"]["database"] = f"{case.database}_1"
    found = told(case.report(services=True).results, "space")
    assert sum(line.startswith("target 't0' and target 't1', on one disk: needs about") for line in found) == 1, found


def test_tables_that_are_copied_and_those_of_a_reverse_stream_need_neither_time_nor_space(case: Case) -> None:
    nothing = "nothing is known that is to be copied"
    case.raw["name"] = unique("copied")
    initialise(case.settings)

    def lines(*, reverse: bool = False) -> list[str]:
        results = preflight.run(case.settings, services=True, reverse=reverse).results
        found = [line for check in ("retention", "space") for line in told(results, check)]
        return [line for line in found if line.startswith(("source", "target"))]

    assert all(nothing not in line for line in lines()), "init has made the tables, and no row is there"
    assert all(nothing in line for line in lines(reverse=True))
    state = case.settings.state.database
    case.box.targets[0].execute("UPDATE phase SET phase = 'copying'", database=state)
    assert all(nothing not in line for line in lines())
    case.box.targets[0].execute("UPDATE phase SET phase = 'copied'", database=state)
    assert len(lines()) >= 3
    assert all(nothing in line for line in lines())
