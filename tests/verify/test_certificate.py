"""The certificate as JSON and as a page."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from migrate.model.errors import ConfigError
from migrate.mysql.connection import connect
from migrate.verify.certificate import SourcePoint, binlog_end, make, page
from migrate.verify.certificate_page import check_file, html_page, write_page
from migrate.verify.difference import Kind
from migrate.verify.recheck import Difference
from migrate.verify.verified import TableVerified
from sandbox.stack import Sandbox
from tests.helpers import server_of

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
POINTS = [SourcePoint("main", "binlog.000001:4", "binlog.000002:99 0-1-7")]
CLEAN = TableVerified("a.t", "main", ("id",), ("id", "v"), 16, 3, 60, 60, 0, 0)
NAMED = Difference("a.t", ("7", "x"), Kind.MISSING, "belongs in t0/d.t_1")


def test_a_clean_certificate_says_what_was_compared_where_and_how() -> None:
    certificate = make("m", 5, AT, AT, POINTS, [CLEAN])
    assert (certificate["clean"], certificate["rows"], certificate["differences"]) == (True, 60, 0)
    assert certificate["sources"] == [
        {"source": "main", "before": "binlog.000001:4", "after": "binlog.000002:99 0-1-7"}
    ]
    assert json.loads(json.dumps(certificate))["started"] == "2026-01-02T03:04:05.678+00:00"
    text = page(certificate)
    assert "CLEAN: source and target are equal" in text
    assert "a.t: 60 rows in 3 chunks over 16 places, 0 differences" in text
    assert "SHA-256" in text


PLAIN, MARIADB, MIXED, OLD = (frozenset(names) for names in (["mysql"], ["mariadb"], ["mysql", "mariadb"], ["mysql 5"]))


@pytest.mark.parametrize(
    ("flavours", "json_types", "told"),
    [
        ([PLAIN], False, ["the size they are stored in"]),
        ([PLAIN], True, ["types of their scalars"]),
        ([MARIADB], True, ["first 64 bits"]),
        ([MIXED, PLAIN], False, ["first 64 bits", "compared by value", "the size they are stored in"]),
        ([OLD], True, ["first 64 bits", "compared by value"]),
    ],
)
def test_a_certificate_says_how_its_tables_were_compared(
    flavours: list[frozenset[str]], json_types: bool, told: list[str]
) -> None:
    method = str(make("m", 5, AT, AT, POINTS, [CLEAN], flavours=flavours, json_types=json_types)["method"])
    every = ["the size they are stored in", "types of their scalars", "first 64 bits", "compared by value"]
    assert {words for words in every if words in method} == set(told)


@pytest.mark.parametrize(
    ("places", "told"), [(2, "each node was compared so by itself"), (1, "each node but the first was held against")]
)
def test_a_certificate_says_how_the_nodes_of_a_broadcast_table_were_compared(places: int, told: str) -> None:
    """At the side that is written the nodes are its places; where it is read there is one place, of the source."""
    method = str(make("m", 5, AT, AT, POINTS, [replace(CLEAN, places=places, nodes=2)])["method"])
    assert told in method
    assert ("were counted together" in method) == (places == 2)


def test_differences_are_named_and_the_rest_is_counted() -> None:
    certificate = make("m", 5, AT, AT, POINTS, [replace(CLEAN, differences=3, named=(NAMED,)), CLEAN])
    assert (certificate["clean"], certificate["differences"]) == (False, 3)
    assert certificate["tables"][0]["named"] == [
        {"key": ["7", "x"], "kind": "missing", "detail": "belongs in t0/d.t_1"}
    ]
    text = page(certificate)
    assert "NOT CLEAN: 3 differences" in text
    assert 'missing ["7", "x"]: belongs in t0/d.t_1' in text
    assert "and 2 more" in text


def test_rows_that_are_not_accounted_for_keep_a_certificate_from_being_clean() -> None:
    told = "t0/d.t_1 has 60 rows, and 59 by ranges of its <key>"
    certificate = make("m", 5, AT, AT, POINTS, [replace(CLEAN, differences=1, unaccounted=(told,))])
    assert (certificate["clean"], certificate["tables"][0]["unaccounted"]) == (False, [told])
    assert f"not accounted for: {told}" in page(certificate)
    assert "and 1 more" not in page(certificate)
    assert "59 by ranges of its &lt;key&gt;" in html_page(certificate)


def test_keys_in_motion_keep_a_certificate_from_being_clean() -> None:
    certificate = make("m", 5, AT, AT, POINTS, [replace(CLEAN, in_motion=2)])
    assert (certificate["clean"], certificate["differences"]) == (False, 0)
    assert "2 keys kept changing" in page(certificate)


def test_the_binlogs_end_moves_with_a_write(box: Sandbox) -> None:
    connection = connect(server_of(box.source), "source")
    before = binlog_end(connection)
    connection.execute("CREATE DATABASE verify_point")
    connection.execute("DROP DATABASE verify_point")
    after = binlog_end(connection)
    connection.close()
    assert before.startswith("binlog.0")
    assert after != before


def test_the_html_page_says_the_same_and_escapes_what_rows_and_names_say() -> None:
    hostile = Difference("a.t", ("<script>alert(1)</script>", "x\u202e\x1b[2J&"), Kind.DIFFERENT, "in t0/`<b>`.t_1: v")
    table = replace(CLEAN, table='a."<i>t', columns=("id", "<v>"), differences=3, named=(hostile, NAMED))
    certificate = make("m", 5, AT, AT, POINTS, [table, replace(CLEAN, repaired=1, mended=(NAMED,))], flavours=[MIXED])
    html = html_page(certificate)
    assert "NOT CLEAN: 3 differences" in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    for raw in ("<script", "<b>", "<i>", "<v>", "\u202e", "\x1b"):
        assert raw not in html
    for said in ("binlog.000002:99 0-1-7", "SHA-256", "MySQL and MariaDB", "2 of 3", "repaired: 1 of 1", "missing"):
        assert said in html
    assert "\x1b" not in page(certificate)
    assert html_page({**make("m", 5, AT, AT, POINTS, [CLEAN])}).count("CLEAN: source and target are equal") == 1


def test_a_page_says_that_tables_are_left_out_of_it() -> None:
    """Lost: that a table joined while the others were compared, on the page that an auditor gets."""
    certificate = {**make("m", 5, AT, AT, POINTS, [CLEAN]), "added": ["shop.new", "shop.<b>"], "all_tables": False}
    for told in (page(certificate), html_page(certificate)):
        assert "CLEAN: the tables below are equal; not all tables were compared" in told
        assert "ot compared, as they were added meanwhile: shop.new, shop." in told
    assert "shop.&lt;b&gt;" in html_page(certificate)


def test_the_html_page_is_whole() -> None:
    """Every element is closed, in its order; nothing is loaded from elsewhere."""
    html = html_page(make("m", 5, AT, AT, POINTS, [replace(CLEAN, differences=3, named=(NAMED,)), CLEAN]))
    open_: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert not {name for name, _ in attrs} & {"src", "href", "onload"}
            if tag != "meta":
                open_.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_.pop() == tag

    Reader().feed(html)
    assert open_ == []


def test_a_page_is_its_owners_alone_and_refused_before_the_work_where_it_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "paper.html"
    check_file(file)
    write_page(make("m", 5, AT, AT, POINTS, [CLEAN]), file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert "CLEAN" in file.read_text("utf-8")
    for wrong in (tmp_path / "none" / "paper.html", tmp_path):
        with pytest.raises(ConfigError, match="cannot be written"):
            check_file(wrong)
