"""GTID sets, held to plain Python sets of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.errors import StopError
from migrate.publish.log.gtid import MariadbGtids, MysqlGtids, compact, flavour_of, missing
from migrate.publish.log.gtid_event import gtid_of

ONE, OTHER = "7925bfdf-e5fc-11f1-aea2-02fc00000001", "00000000-0000-0000-0000-0000000000ff"
NAMES = st.sampled_from([ONE, OTHER, f"{ONE}:a_tag", f"{ONE}:b"])
GTIDS = st.sets(st.tuples(NAMES, st.integers(1, 25)))


def made(gtids: set[tuple[str, int]], order: list[tuple[str, int]] | None = None) -> MysqlGtids:
    found = MysqlGtids()
    for name, number in order if order is not None else sorted(gtids):
        found.add(f"{name}:{number}")
    return found


@given(GTIDS, st.randoms())
def test_in_whatever_order_transactions_come_the_set_is_the_same(
    gtids: set[tuple[str, int]], random: st.DataObject
) -> None:
    order = list(gtids)
    random.shuffle(order)  # type: ignore[attr-defined]
    assert made(gtids, order) == made(gtids)
    assert str(made(gtids, order)) == str(made(gtids))


@given(GTIDS)
def test_what_is_written_is_read_again(gtids: set[tuple[str, int]]) -> None:
    assert MysqlGtids.parse(str(made(gtids))) == made(gtids)
    assert MysqlGtids.parse(str(made(gtids)).upper().replace(",", ",\n")) == made(gtids)


@given(GTIDS, GTIDS)
def test_contains_and_within_are_those_of_sets(one: set[tuple[str, int]], other: set[tuple[str, int]]) -> None:
    assert made(one).within(made(other)) == (one <= other)
    assert all(made(one).contains(f"{name}:{number}") == ((name, number) in one) for name, number in one | other)
    assert bool(made(one)) == bool(one)


def test_a_copy_stays_when_the_original_goes_on() -> None:
    first = MysqlGtids.parse(f"{ONE}:1-3")
    copy = first.copy()
    first.add(f"{ONE}:4")
    assert (str(copy), str(first)) == (f"{ONE}:1-3", f"{ONE}:1-4")
    domains = MariadbGtids.parse("0-1-3")
    kept = domains.copy()
    domains.add("0-1-4")
    assert (str(kept), str(domains)) == ("0-1-3", "0-1-4")


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("", ""),
        (f"{ONE}:1-7:9-10", f"{ONE}:1-7:9-10"),
        (f"{ONE}:9:1-7:8", f"{ONE}:1-9"),
        (f"{ONE}:5,{OTHER}:1,{ONE}:6", f"{OTHER}:1,{ONE}:5-6"),
        (f"{ONE}:1-3:abc_1:1-2:5:zz:1", f"{ONE}:1-3:abc_1:1-2:5:zz:1"),
        (f"{ONE}:zz:1:abc_1:1", f"{ONE}:abc_1:1:zz:1"),
    ],
)
def test_mysql_sets_have_one_notation(written: str, canonical: str) -> None:
    assert str(MysqlGtids.parse(written)) == canonical


@pytest.mark.parametrize(
    "written",
    [
        "x",
        ONE,
        f"{ONE}:",
        f"{ONE}:0",
        f"{ONE}:3-2",
        f"{ONE}:-1",
        f"{ONE}:tag",
        f"{ONE}:1:a:b:1",
        f"{ONE}:1:9t:1",
        "0-1-1",
    ],
)
def test_what_is_no_mysql_set_is_refused(written: str) -> None:
    with pytest.raises(StopError, match="is no GTID set"):
        MysqlGtids.parse(written)


def test_mariadb_sets_hold_the_last_of_each_domain() -> None:
    found = MariadbGtids.parse("10-1-5,0-2-7, 0-1-9")
    assert str(found) == "0-1-9,10-1-5"
    found.add("0-3-10")
    found.add("2-1-1")
    assert str(found) == "0-3-10,2-1-1,10-1-5"
    assert found.contains("0-1-9")
    assert not found.contains("0-3-11")
    assert not found.contains("7-1-1")
    assert MariadbGtids.parse("0-1-9,2-1-1").within(found)
    assert not found.within(MariadbGtids.parse("0-1-10,2-1-1"))
    assert MariadbGtids.parse("").within(found)
    with pytest.raises(StopError, match="is no GTID set"):
        MariadbGtids.parse("0-1")


def test_notations_are_told_apart() -> None:
    assert [flavour_of(text) for text in (f"{ONE}:1", "0-1-5", "binlog.000001:4", "")] == [
        "mysql",
        "mariadb",
        None,
        None,
    ]


# Bodies of events that a MySQL 9.7 wrote, whose SHOW BINLOG EVENTS named them so.
TAGGED = {
    "7925bfdf-e5fc-11f1-aea2-02fc00000001:abc_1:1": (
        "027600000002f24afd027d039503f10322c503b902890204f103000000020404060a6162635f3108080a100c7f9dd1630ad160061"
        "05d041283120b"
    ),
    "7925bfdf-e5fc-11f1-aea2-02fc00000001:zz:1": (
        "027000000002f24afd027d039503f10322c503b902890204f10300000002040406047a7a08080a180c7f4cd5630ad160061051041283120b"
    ),
}


@pytest.mark.parametrize("gtid", TAGGED)
def test_a_tagged_gtid_is_read_from_its_event(gtid: str) -> None:
    body = bytes.fromhex(TAGGED[gtid])
    assert gtid_of(42, 1, body) == gtid
    for length in range(body.index(gtid.split(":")[1].encode()) + len(gtid.split(":")[1])):
        with pytest.raises(StopError, match="cannot be read"):
            gtid_of(42, 1, body[:length])


def test_an_anonymous_transaction_has_no_gtid() -> None:
    assert gtid_of(34, 1, bytes(42)) == ""


@given(GTIDS, GTIDS)
def test_transactions_and_sets_make_one_set(one: set[tuple[str, int]], other: set[tuple[str, int]]) -> None:
    assert MysqlGtids.parse(compact([str(made(one)), *(f"{name}:{number}" for name, number in other)])) == made(
        one | other
    )


def test_of_mariadb_the_last_of_each_domain_and_server_stands_for_those_before() -> None:
    found = compact(["0-1-7,1-1-3", "0-2-5", "0-1-9", "0-1-8"])
    assert set(found.split(",")) == {"0-1-9", "0-2-5", "1-1-3"}
    assert compact([]) == ""


@given(GTIDS, GTIDS)
def test_what_a_set_lacks_is_left(one: set[tuple[str, int]], other: set[tuple[str, int]]) -> None:
    left = missing(str(made(one)), str(made(other))) if other else str(made(one))
    assert MysqlGtids.parse(left) == made(one - other)


def test_of_mariadb_each_domain_is_passed_by_itself() -> None:
    """Lost: failovers to servers that only have the history from the last one on, once a single domain was behind."""
    assert missing("0-1-505,1-1-7", "0-2-600,1-1-6") == "1-1-7"
    assert missing("0-1-505", "0-2-600") == ""
    assert missing("0-1-505", "") == "0-1-505"
