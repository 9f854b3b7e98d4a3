"""Which added tables are still ahead of a publisher, by what can be compared: file and position, GTIDs, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrate.publish.added_tables import TablesAhead
from migrate.publish.log.gtid import parse
from migrate.state.membership import Member, MemberStage
from migrate.state.position import Position

NAME = ("shop", "t")
HERE = Position("main", "db:3306", 1, "", 9, 1, "binlog.000002", 500, "0-1-20")
PLACE = Member(MemberStage.JOINING, 1, "binlog.000003", 100, "0-1-30", 1, "")


def ahead(member: Member, position: Position = HERE) -> TablesAhead:
    gtids = parse(position.gtid_set, "mariadb") if position.gtid_set else None
    return TablesAhead({NAME: member}, position, gtids, "mariadb")


@pytest.mark.parametrize(
    ("file", "pos", "there"),
    [
        ("binlog.000002", 900, False),
        ("binlog.000003", 99, False),
        ("binlog.000003", 100, True),
        ("binlog.000010", 4, True),
    ],
)
def test_on_the_server_that_wrote_the_log_the_place_itself_decides(file: str, pos: int, there: bool) -> None:
    member = replace(PLACE, gtid_set="0-1-9999")
    assert ahead(member).names == {NAME}
    assert ahead(member).reached(file, pos, "0-1-21") is there
    assert ahead(member, replace(HERE, file=file, pos=pos)).names == (set() if there else {NAME})


def test_on_another_server_the_gtids_decide_transaction_by_transaction() -> None:
    elsewhere = replace(HERE, server_id=2, file="other.000900", gtid_set="0-1-28")
    found = ahead(PLACE, elsewhere)
    assert found.names == {NAME}
    assert [found.reached("other.000901", 4, f"0-1-{number}") for number in (29, 30)] == [False, True]
    assert ahead(PLACE, replace(elsewhere, gtid_set="0-1-30")).names == set()


def test_where_nothing_can_be_compared_the_table_counts() -> None:
    assert ahead(PLACE, replace(HERE, server_id=2, gtid_set="")).names == set()
    assert ahead(replace(PLACE, gtid_set=""), replace(HERE, server_id=2)).names == set()


def test_a_table_without_a_place_is_never_read() -> None:
    assert ahead(Member(MemberStage.WAITING)).names == {NAME}
    assert not ahead(Member(MemberStage.WAITING)).reached("binlog.999999", 4, "0-1-9999")


def test_a_place_that_is_reached_is_noted_once() -> None:
    behind = replace(HERE, file="binlog.000004")
    assert ahead(PLACE, behind).joined() == {NAME: replace(PLACE, stage=MemberStage.JOINED)}
    assert ahead(replace(PLACE, stage=MemberStage.JOINED), behind).joined() == {}
    assert ahead(PLACE).joined() == {}
