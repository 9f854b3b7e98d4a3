"""The page from typed values: each kind of blocker, each value escaped, readable without eyes or a mouse. Costs 1 s."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from migrate.commands.parked import ParkedListing
from migrate.model.command import Command, Direction
from migrate.state.alarms import Alarm
from migrate.state.cutover import CutoverRun, JournalEntry, Outcome, StepState, SwitchDirection
from migrate.state.page_action import PageAction
from migrate.state.reached import LostMessages
from migrate.state.status_history import PastStatus, StatusSample
from migrate.state.switch import Application, Side, Switch, Writes
from migrate.status import exported
from migrate.status.blocker import DRAIN, PARKED, VERIFY, Blocker, Kind
from migrate.status.look import Look
from migrate.status.measures import Measures
from migrate.status.snapshot import PartitionStatus, Snapshot, SourceStatus
from migrate.status.stage import Stage
from migrate.status.table_state import TableState
from migrate.status.told import told
from migrate.web.page import plots, render
from migrate.web.page.actions import ActionsSeen
from migrate.web.page.details import Details, SetAside
from migrate.web.page.history import KnownMigration, sample
from migrate.web.page.plots import Span
from migrate.web.page.render import MigrationRow, RowAsked
from migrate.web.page.view import View
from tests.status.test_exported import text_of, values

AT = datetime(2026, 1, 31, 12, 0, 30, tzinfo=UTC)
THEN = AT.replace(tzinfo=None)
MINUTE = int(AT.timestamp() // 60)
EVIL = """<script>alert('x')</script>"'&{{ 7 * 7 }}</td>"""
VOID = {"meta", "link", "input", "br", "path", "line"}
BYTES = 300_000
FACTS: dict[str, Any] = {
    **dict.fromkeys(("reason", "because", "lost", "state", "upto", "since"), "because of it"),
    **dict.fromkeys(("side", "read", "written", "way_out", "command", "code"), "there"),
    **dict.fromkeys(("count", "partitions", "seconds", "allowed_seconds", "hours", "run"), 3),
    **{"ended": [], "tables": ["shop.a"], "starts": False, "reverse": False, "merge_interval_seconds": 15},
}


class Read(HTMLParser):
    """What a reader that takes the page apart finds, and what is wrong with it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.faults: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self._open]
        ids = [one["id"] for _, one in self.tags if "id" in one]
        self.faults += [f"id {one} is there twice" for one in set(ids) if ids.count(one) > 1]
        for name in ("aria-labelledby", "for", "list"):
            self.faults += [f"{name}: no {one[name]}" for _, one in self.tags if name in one and one[name] not in ids]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self._open.append(tag)
        self.faults += [f"<{tag} {name}>" for name in found if name.startswith("on") or name == "style"]
        if tag == "script" and not found.get("src"):
            self.faults.append("a script in the page")
        if tag == "progress" and not found.get("aria-label") and "label" not in self._open:
            self.faults.append("<progress> without a name")
        if tag == "svg" and (found.get("role"), "aria-labelledby" in found) != ("img", True):
            self.faults.append("a drawing without a name")
        if tag == "th" and found.get("scope") not in ("col", "row"):
            self.faults.append("<th> without a scope")
        if "scroll" in (found.get("class") or "") and not (found.get("tabindex") == "0" and found.get("aria-label")):
            self.faults.append("a table that a keyboard cannot scroll")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")

    def handle_data(self, data: str) -> None:
        if "style" not in self._open[-1:]:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def tables_without_caption(self) -> int:
        names = [tag for tag, _ in self.tags]
        return names.count("table") - names.count("caption")


def snapshot(value: str = "x", **changes: Any) -> Snapshot:
    """Of a stream that has one of everything, with this value in every place that others write to."""
    found = Snapshot("shop", [value])
    at = f"{value}:4"
    found.sources = [SourceStatus("main", at, at, False, value, value, {"rows": 4}, 2.0, value, value, value)]
    found.partitions = [PartitionStatus(value, 0, 5, 12, 5, 900, value), PartitionStatus("t", 1, 0, 0, 0, 0)]
    found.tables = {f"shop.{value}": TableState.COPYING, "shop.b": TableState.COPIED}
    copy: dict[str, Any] = {"rows_read": 70, "bytes_read": 800, "rows_estimate": 900, "rows_per_second": 1234.0}
    copy |= {"seconds_left": 120.0, "skew": 1.25, "running": True, "updated": value, "part": value, "reason": value}
    copy |= {"pace": value, "places": {value: 40}}
    found.copies = {f"shop.{value}": copy}
    found.empty_deletes, found.waiting_markers, found.parked, found.skips, found.left_out = 2, 3, 1, 1, 1
    found.foreign, found.outdated = 1, 6
    found.lost = [LostMessages(("t0", value), f"{value} [0]", 5, 9, 7)]
    found.oversized = [
        {"database": "shop", "table": value, "key": value, "operation": value, "size": 9000, "verified": False}
    ]
    found.halted = [{"process": value, "reason": value, "hint": value, "at": value, "since": value, "code": ""}]
    found.endings = [{"process": value, "reason": value, "hint": value, "at": value}]
    found.leading = {value: value}
    found.gone, found.unanswered, found.plain = {value}, [value], [value]
    found.check = checked(value)
    found.forgotten = {"since": value, "because": value}
    found.lag_seconds = 4.26
    return replace(found, **changes)


def checked(value: str) -> dict[str, Any]:
    last = {"finished": value, "seconds": 1.0, "chunks": 1, "rows": 2, "in_motion": 0, "repaired": 0}
    named = {"table": value, "source": value, "key": [value], "kind": value, "detail": value, "first_seen": value}
    return {"last": last, "chunks": 5, "never_checked": 1, "oldest": None, "differences": 1, "named": [named]}


def details(value: str = "x") -> Details:
    compared: dict[str, Any] = {"table": "shop.b", "source": "main", "rows": 50, "differences": 0, "in_motion": 1}
    certificate: dict[str, Any] = {
        "migration": "shop",
        "verification": 7,
        "started": value,
        "finished": "2026-01-31T10:00:00.000",
    }
    certificate |= {**compared, "tables": [compared], "clean": False, "all_tables": True}
    parked = {"place": value, "key": value, "change": value, "refusal": value, "reason": value, "since": value}
    skip = {"source": value, "table": value, "key": value, "reason": value}
    left_out = {"topic": value, "partition": 0, "offset": 1, "bytes": 2, "refusal": value, "reason": value}
    listing = ParkedListing([], [skip], [parked], [{**left_out, "since": value}], "")
    foreign = {"side": "source", "server": value, "table": value, "key": [value], "kind": "foreign", "seen": value}
    return Details(
        switch=Switch(3, Side.SOURCE, Writes.OPEN, THEN),
        applications=[Application(value, 3, THEN)],
        certificates=[certificate],
        run=CutoverRun(2, SwitchDirection.TO_TARGETS, Outcome.ABORTED, THEN, THEN, 0.75),
        journal=[JournalEntry(value, StepState.FAILED, THEN, value)],
        aside={"shop": SetAside(listing)},
        foreign=[foreign, {**foreign, "key": None}],
        foreign_count=900,
        alarms=[Alarm(value, value, value, value, THEN, THEN, THEN)],
        actions=[PageAction(1, value, value, THEN, THEN, 0, "")],
    )


def history(*lags: float, changes: int = 60) -> list[PastStatus]:
    """One a minute, the last at AT; each minute has so many changes."""
    first = MINUTE - len(lags) + 1
    return [
        PastStatus(
            first + at,
            THEN - timedelta(minutes=len(lags) - 1 - at),
            StatusSample("copying", lag, at * changes, 0, 0, "fine", ""),
        )
        for at, lag in enumerate(lags)
    ]


def view(value: str = "x", held: list[Blocker] | None = None, **changes: Any) -> View:
    look = Look(snapshot(value), Stage.COPYING, held or [], Measures({"done": 2}, certificate_age=90.0), next=DRAIN)
    return replace(View(look, AT, details(value), history(1.0, 2.0, 3.0)), **changes)


def page(value: str = "x", held: list[Blocker] | None = None, **changes: Any) -> str:
    return render.migration("shop", view(value, held, **changes))


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_each_kind_of_blocker_is_shown_by_its_sentence_with_its_remedy_to_copy(kind: Kind) -> None:
    one = Blocker(kind, "the subject", FACTS, VERIFY)
    found = Read(page(held=[one]))
    assert " ".join(told(one).split()) in found.words
    assert f"{kind.value} " in found.words
    assert "migrate verify" in [tag[1].get("data-copy") for tag in found.tags if tag[0] == "button"]
    assert found.faults == []


def test_a_remedy_is_given_as_it_is_typed_for_its_stream() -> None:
    forward, back = Blocker(Kind.PARKED, facts={"count": 1}, remedy=PARKED), Blocker(Kind.UNVERIFIED, remedy=VERIFY)
    held = [forward, forward.towards(Direction.REVERSE), back]
    assert [one.remedy for one in view(held=held).held] == [
        "migrate parked list",
        "migrate --reverse parked list",
        "migrate verify",
    ]
    leads = replace(details(), switch=Switch(4, Side.TARGET, Writes.OPEN))
    assert view(held=held, details=leads).held[2].remedy == "migrate --reverse verify"
    alone = view(held=held, details=replace(details(), is_reverse=True))
    assert alone.held[0].remedy == "migrate --reverse parked list"


def test_the_page_says_what_metrics_say() -> None:
    seen = view(held=[Blocker(Kind.PARKED, facts={"count": 1}), Blocker(Kind.BEHIND, facts=FACTS)])
    metrics, words = values(text_of(exported.families(seen.look))), Read(render.migration("shop", seen)).words
    assert metrics["migrate_lag_seconds",] == 4.26
    assert "Lag 4.3 s" in words
    assert metrics["migrate_needs_person",] == 1
    assert "a person is needed" in words
    assert metrics["migrate_parked_changes",] == 1
    assert "Parked changes 1 " in words
    assert metrics["migrate_foreign_rows",] == 1
    assert "Foreign writes 1 " in words
    assert sum(value for name, value in metrics.items() if name[0] == "migrate_blockers") == len(seen.held) == 2
    assert sample(seen.look).verdict == "person"


def test_every_value_of_a_database_is_escaped() -> None:
    for made in (
        page(EVIL, [Blocker(Kind.STOPPED, EVIL, {"reason": EVIL}, Command((EVIL,)))]),
        render.overview(render.parts_of_list([row(EVIL)], EVIL, EVIL), 5.0),
        render.other(KnownMigration(EVIL, False, False, history(1.0)), EVIL, history(1.0), Span.DAY),
        render.problem(EVIL, AT, 5.0),
        render.missing(EVIL),
        render.row_search(EVIL, RowAsked(EVIL, EVIL, EVIL), [EVIL], 5, lines=[EVIL], problem=EVIL, hint=EVIL),
        acted(EVIL),
    ):
        found = Read(made)
        assert found.faults == []
        assert EVIL in "".join(found.text)
        assert "<script>alert" not in made
        assert "49</td>" not in made


def acted(value: str) -> str:
    done = ActionsSeen(
        [PageAction(2, value, value, THEN, None, None, ""), PageAction(1, value, value, THEN, THEN, 5, value)], value
    )
    return render.actions(value, render.parts_of_actions(done), "0" * 64, value)


def row(value: str) -> MigrationRow:
    return MigrationRow(value, value, 1.0, 2.0, 3, "person", value, AT, own=False)


def test_it_can_be_read_by_ear_and_used_by_keyboard() -> None:
    for made in (
        page(held=[Blocker(Kind.PARKED, facts={"count": 1}, remedy=PARKED)]),
        render.overview(render.parts_of_list([row("x")], "shop", ""), 5.0),
        render.row_search("shop", RowAsked(), [], 5),
        acted("shop"),
    ):
        found = Read(made)
        tags = [tag for tag, _ in found.tags]
        assert found.faults == []
        assert found.tables_without_caption() == 0
        assert [tags.count(one) for one in ("h1", "main", "title")] == [1, 1, 1]
        assert ("html", {"lang": "en"}) in found.tags
        assert sum("for" in one for tag, one in found.tags if tag == "label") == sum(
            tag == "input" and one.get("type") != "hidden" for tag, one in found.tags
        )
    marks = [found for tag, found in Read(page()).tags if found.get("aria-current") == "step"]
    assert len(marks) == 1


def test_a_fault_of_a_page_is_seen() -> None:
    """Negative control of the reader above."""
    assert Read("<p id='a'><p id='a'></p></p>").faults == ["id a is there twice"]
    assert Read("<p onclick='x'></p>").faults == ["<p onclick>"]
    assert Read("<script>x</script>").faults == ["a script in the page"]
    assert Read("<progress></progress>").faults == ["<progress> without a name"]
    assert Read("<th>x</th>").faults == ["<th> without a scope"]
    assert Read("<p></td></p>").faults[0] == "</td> closes something else"


def test_each_stage_is_shown_where_the_migration_stands() -> None:
    for stage in Stage:
        seen = view(look=Look(snapshot(), stage, [], Measures()))
        marks = seen.stages
        assert [one.name for one in marks if one.is_current] == [stage.value]
        assert [one.is_past for one in marks] == sorted([one.is_past for one in marks], reverse=True)
        assert f"{stage.value} " in Read(render.migration("shop", seen)).words
    assert view(look=Look(snapshot(), None, [], Measures())).stages == []


def test_a_page_of_a_thousand_tables_stays_small() -> None:
    many = snapshot("name_of_a_table" * 4)
    many.tables = {f"shop.table_of_some_length_{number}": TableState.COPYING for number in range(1000)}
    copy = next(iter(many.copies.values()))
    many.copies = {name: {**copy, "places": {f"ds_{at}.{name}": 5 for at in range(64)}} for name in many.tables}
    many.partitions = [PartitionStatus("shop", number, 5, 12, 5, 900, "host:1") for number in range(500)]
    full = history(*[1.5] * 10_000)
    held = [Blocker(kind, "x", FACTS, VERIFY) for kind in Kind]
    both = Look(many, Stage.COPYING, held, Measures(), reverse=replace(many, migration="shop_reverse"))
    made = render.migration("shop", view(held=held, look=both, history=full))
    assert 30_000 < len(made.encode()) + sum(len(render.static(one)) for one in render.STATIC) < BYTES
    assert "migrate status" in made


def test_what_has_not_changed_since_is_the_same_text() -> None:
    first, again = render.parts_of(view()), render.parts_of(view(at=AT + timedelta(seconds=5)))
    assert [name for name in first if first[name] != again[name]] == ["summary"]


# -- plots and rates


def test_the_rate_is_that_since_the_last_sample_that_is_old_enough() -> None:
    past = history(1.0, 1.0, changes=300)  # 0 a minute ago, 300 now
    assert view(history=past).rate == 900 / 60
    assert view(history=past[:1], at=AT + timedelta(seconds=30)).rate == 900 / 90
    assert view(history=past[:1], at=AT + timedelta(minutes=20)).rate is None
    assert view(history=[]).rate is None
    fallen = [replace(past[0], sample=replace(past[0].sample, changes=901))]
    assert view(history=fallen).rate is None, "another count began"


def test_a_plot_shows_the_highest_lag_and_says_the_same() -> None:
    lags = [0.5] * 1440
    lags[700] = 77.0
    plot = plots.lag(history(*lags), Span.DAY)
    assert re.search(r"p50 0\.5 s, p95 0\.5 s, p99 0\.5 s, highest 77\.0 s at 2026-01-30 23:41 UTC", plot.told)
    assert [tick.label for tick in plot.up] == ["0", "50", "100"]
    (line,) = plot.lines
    heights = [float(one.split()[1]) for one in line[1:].split(" L")]
    assert len(heights) <= 241
    assert min(heights) == pytest.approx(plots.TOP + (plots.HEIGHT - plots.TOP - plots.BOTTOM) * 0.23, abs=0.1)
    assert len(plots.lag(history(*lags), Span.HOUR).lines[0].split(" L")) == 60


def test_where_nothing_was_noted_there_is_no_line() -> None:
    past = history(*[1.0] * 50)
    assert len(plots.lag([*past[:10], *past[40:]], Span.HOUR).lines) == 2
    assert plots.lag([], Span.HOUR).lines == ()
    assert "no sample yet" in plots.lag([], Span.HOUR).told
    assert len(plots.lag(past[:1], Span.WEEK).lines) == 1


def test_a_rate_is_between_samples_that_follow_each_other() -> None:
    past = history(*[1.0] * 12, changes=120)
    assert {one.value for one in plots.rates(past)} == {2.0}
    assert len(plots.rates([past[0], past[11]])) == 0
    assert plots.rates([past[3], replace(past[4], sample=past[2].sample)]) == []
