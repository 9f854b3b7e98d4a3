"""Where a migration stands, and what to type next: decided by values, as a table. Costs 1 s."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from migrate.cli.status import as_document
from migrate.copy.throttle import Pace
from migrate.model import command, process_names
from migrate.model.command import Command
from migrate.model.errors import Code, ConfigError
from migrate.state.cutover import CutoverRun, Outcome, SwitchDirection
from migrate.state.reached import BROKER, NO_OFFSET, SWITCH, LostMessages
from migrate.state.stop_reason import StopReason
from migrate.state.switch import Side
from migrate.status import blockers, reverse_stream
from migrate.status.blocker import PARKED, PREFLIGHT, VERIFY, Blocker, Kind
from migrate.status.next_step import mend, missing, typed
from migrate.status.readiness import not_ready
from migrate.status.reverse_stream import ReverseReadiness
from migrate.status.snapshot import PartitionStatus, Snapshot, SourceStatus
from migrate.status.stage import Stage, StageFacts, StageStatus, standing_of
from migrate.status.table_state import TableState
from migrate.status.told import _TOLD, told
from tests.helpers import make_settings
from tests.test_docs import ROOT
from tests.test_hints import missing as missing_words

SETTINGS = make_settings()
SOURCE = SETTINGS.sources[0].name
UNTIL_VERIFIED = {
    Kind.SERVER_IN_DOUBT,
    Kind.FOREIGN,
    Kind.LOST,
    Kind.DIFFERENT,
    Kind.MESSAGES_LEFT_OUT,
    Kind.ROWS_LEFT_OUT,
}
UNLIKE = [Blocker(Kind.UNLIKE, "shop.t", {"reason": "shop_1.t_0 has other columns than shop.t"}, PREFLIGHT)]
OLD = Blocker(Kind.VERIFIED_TOO_LONG_AGO, facts={"hours": 24.0})
BACK_IS_READY = ReverseReadiness([], None)
NO_REVERSE = ReverseReadiness([Blocker(Kind.NOT_THERE)], Command.of("--reverse init"))
IDLE = ReverseReadiness([Blocker(Kind.NOT_RUNNING)], Command.of("--reverse run"))
BEGINS = ReverseReadiness([Blocker(Kind.NOT_BEGUN, "t0")], Command.of("--reverse status --watch"))
STATES = tuple(TableState)


def snapshot(**changes: Any) -> Snapshot:
    """Of a stream whose processes run, with one copied table, at its target."""
    source = SourceStatus(SOURCE, "binlog.000001:4", "binlog.000001:4", True, "", "127.0.0.1:3306")
    found = Snapshot("shop", ["shop"], [source], [PartitionStatus("shop", 0, 5, 5, 5, 5, "host:1")])
    found.tables = {"shop.orders": TableState.COPIED}
    found.leading = {
        process_names.publisher(SOURCE): "host:1",
        "commit": "host:2",
        "requeue": "host:3",
        "check": "host:4",
    }
    for name, value in changes.items():
        if hasattr(source, name) and not hasattr(found, name):
            setattr(source, name, value)
        else:
            setattr(found, name, value)
    return found


def of_tables(*states: TableState, **changes: Any) -> Snapshot:
    return snapshot(tables={f"shop.t{number}": state for number, state in enumerate(states)}, **changes)


def facts(now: Snapshot | None = None, **changes: Any) -> StageFacts:
    """Of a verified migration, applications at the sources, with a reverse stream that runs."""
    return replace(StageFacts(SETTINGS, now or snapshot(), BACK_IS_READY, verified=True), **changes)


AT = datetime(2026, 1, 1, tzinfo=UTC)


def run(direction: SwitchDirection, outcome: Outcome) -> CutoverRun:
    return CutoverRun(3, direction, outcome, AT, None, None)


THERE, BACK = run(SwitchDirection.TO_TARGETS, Outcome.DONE), run(SwitchDirection.TO_SOURCES, Outcome.DONE)
AT_TARGET: dict[str, Any] = {"side": Side.TARGET, "last": THERE, "done": THERE}
FOLLOWED: dict[str, Any] = {**AT_TARGET, "followed": True}
STOPPED_PARTITION = {
    "process": "consume: shop [0]",
    "reason": "key 7",
    "hint": "",
    "at": "",
    "since": "",
    "code": "message",
}
STOPPED_CHECK = {"process": "check", "reason": "away", "hint": "", "at": "", "since": "", "code": ""}
LOST_COPY = LostMessages(("t0", "shop_0"), "shop.orders", NO_OFFSET, NO_OFFSET, 0)
LOST_SPAN = LostMessages(("t0", "shop_0"), "shop [0]", 3, 5, 3)


def copying(pace: Pace) -> dict[str, Any]:
    return {"copies": {"shop.t0": {"running": True, "pace": pace}}}


NOBODY: dict[str, Any] = {"leading": {}, "partitions": [PartitionStatus("shop", 0, 5, 5, 5, 5)]}
NO_REQUEUE: dict[str, Any] = {"leading": {process_names.publisher(SOURCE): "host:1"}}
NO_PUBLISHER: dict[str, Any] = {"leading": {"requeue": "host:3"}}
OVERSIZED = [{"verified": False}]
ENDED = [{"process": process_names.publisher(SOURCE), "at": "12:00", "reason": "away"}]
T = TableState


@pytest.mark.parametrize(
    ("known", "stage", "next_"),
    [
        # nothing reads the sources yet
        (facts(snapshot(published="", **NOBODY)), Stage.CREATED, "migrate run"),
        (facts(snapshot(published="", **NO_PUBLISHER)), Stage.CREATED, f"migrate publish --source {SOURCE}"),
        (facts(snapshot(published="")), Stage.CREATED, "migrate status --watch"),
        (facts(snapshot(published="", endings=ENDED, **NOBODY)), Stage.CREATED, "migrate preflight"),
        # changes are kept, and no table is copied
        (facts(of_tables(T.CREATED)), Stage.CAPTURING, "migrate copy"),
        (facts(of_tables(T.CREATED, **NO_PUBLISHER)), Stage.CAPTURING, f"migrate publish --source {SOURCE}"),
        (facts(of_tables(T.WAITING)), Stage.CAPTURING, "migrate run"),
        (facts(of_tables(T.JOINING)), Stage.CAPTURING, "migrate status --watch"),
        (facts(of_tables(T.WAITING, T.JOINING)), Stage.CAPTURING, "migrate run"),
        # copying
        (facts(of_tables(T.COPYING)), Stage.COPYING, "migrate copy"),
        (facts(of_tables(T.CREATED, T.COPIED)), Stage.COPYING, "migrate copy"),
        (facts(of_tables(T.COPYING, **copying(Pace.FULL))), Stage.COPYING, "migrate status --watch"),
        (facts(of_tables(T.COPYING, **copying(Pace.PAUSED))), Stage.COPYING, "migrate throttle --resume"),
        (facts(of_tables(T.COPYING, **copying(Pace.FULL), **NOBODY)), Stage.COPYING, "migrate run"),
        (facts(of_tables(T.COPIED, T.WAITING)), Stage.COPYING, "migrate run"),
        (facts(of_tables(T.COPIED, T.JOINING)), Stage.COPYING, "migrate status --watch"),
        # everything is copied, and the stream is not at its target
        (facts(snapshot(parked=1)), Stage.CATCHING_UP, "migrate parked list"),
        (facts(snapshot(skips=1)), Stage.CATCHING_UP, "migrate parked list"),
        (facts(snapshot(halted=[STOPPED_PARTITION])), Stage.CATCHING_UP, "migrate parked list"),
        (facts(snapshot(halted=[STOPPED_CHECK])), Stage.CATCHING_UP, "migrate status --watch"),
        (facts(snapshot(halted=[STOPPED_CHECK], lag_of_consumers=1e6)), Stage.CATCHING_UP, "migrate drain"),
        (facts(snapshot(lag_of_consumers=1e6)), Stage.CATCHING_UP, "migrate drain"),
        (facts(snapshot(empty_deletes=2)), Stage.CATCHING_UP, "migrate drain"),
        (facts(snapshot(waiting_markers=2)), Stage.CATCHING_UP, "migrate drain"),
        (facts(snapshot(outdated=2)), Stage.CATCHING_UP, "migrate drain"),
        (facts(snapshot(replaying="binlog.000002:4")), Stage.CATCHING_UP, "migrate drain"),
        (facts(snapshot(problem="away")), Stage.CATCHING_UP, "migrate drain"),
        (facts(snapshot(gone={"shop"})), Stage.CATCHING_UP, "migrate drain"),
        (facts(snapshot(unanswered=["target 't0': away"])), Stage.CATCHING_UP, "migrate preflight"),
        (facts(snapshot(**NOBODY)), Stage.CATCHING_UP, "migrate run"),
        (
            facts(snapshot(empty_deletes=1, leading={process_names.publisher(SOURCE): "host:1"})),
            Stage.CATCHING_UP,
            "migrate requeue",
        ),
        (
            facts(snapshot(outdated=1, leading={process_names.publisher(SOURCE): "host:1"})),
            Stage.CATCHING_UP,
            "migrate requeue",
        ),
        (facts(snapshot(foreign=3)), Stage.CATCHING_UP, "migrate foreign compare"),
        (facts(snapshot(lost=[LOST_COPY])), Stage.CATCHING_UP, "migrate copy --table shop.orders --restart"),
        (facts(snapshot(lost=[LOST_SPAN])), Stage.CATCHING_UP, "migrate verify"),
        (facts(snapshot(doubt="it is another server")), Stage.CATCHING_UP, "migrate verify"),
        (facts(snapshot(differing=1)), Stage.CATCHING_UP, "migrate verify --repair"),
        (facts(snapshot(left_out_since=1)), Stage.CATCHING_UP, "migrate verify --repair"),
        (facts(snapshot(oversized=OVERSIZED)), Stage.CATCHING_UP, "migrate verify --repair"),
        (facts(snapshot(oversized=OVERSIZED, lost=[LOST_SPAN])), Stage.CATCHING_UP, "migrate verify"),
        (facts(snapshot(oversized=OVERSIZED, parked=1)), Stage.CATCHING_UP, "migrate parked list"),
        # not known to be equal
        (facts(verified=False), Stage.CATCHING_UP, "migrate verify"),
        (facts(too_old=OLD), Stage.CATCHING_UP, "migrate verify"),
        (facts(verified=False, back=NO_REVERSE), Stage.CATCHING_UP, "migrate --reverse init"),
        (facts(verified=False, back=BEGINS), Stage.CATCHING_UP, "migrate --reverse status --watch"),
        (facts(verified=False, triggers=["trigger t fires"]), Stage.CATCHING_UP, "migrate preflight"),
        (facts(snapshot(differing=1), triggers=["trigger t fires"]), Stage.CATCHING_UP, "migrate preflight"),
        (facts(snapshot(parked=1), triggers=["trigger t fires"]), Stage.CATCHING_UP, "migrate parked list"),
        # tables that somebody altered alone
        (facts(unlike=UNLIKE), Stage.CATCHING_UP, "migrate preflight"),
        (facts(unlike=UNLIKE, verified=False), Stage.CATCHING_UP, "migrate preflight"),
        (facts(unlike=UNLIKE, back=NO_REVERSE), Stage.CATCHING_UP, "migrate preflight"),
        (facts(snapshot(lag_of_consumers=1e6), unlike=UNLIKE), Stage.CATCHING_UP, "migrate preflight"),
        (facts(snapshot(parked=1), unlike=UNLIKE), Stage.CATCHING_UP, "migrate parked list"),
        (facts(snapshot(**NOBODY), unlike=UNLIKE), Stage.CATCHING_UP, "migrate run"),
        (facts(last=BACK, done=BACK, unlike=UNLIKE), Stage.REVERSED, "migrate preflight"),
        # verified
        (facts(back=NO_REVERSE), Stage.VERIFIED, "migrate --reverse init"),
        (facts(), Stage.READY, "migrate cutover --rehearse"),
        (facts(stopped=["main"]), Stage.READY, "migrate cutover --abort"),
        # under way
        (facts(last=run(SwitchDirection.TO_TARGETS, Outcome.RUNNING)), Stage.SWITCHING, "migrate cutover --abort"),
        (facts(last=run(SwitchDirection.TO_SOURCES, Outcome.ABORTING)), Stage.SWITCHING, "migrate rollback --abort"),
        (facts(last=run(SwitchDirection.TO_TARGETS, Outcome.SWITCHED)), Stage.SWITCHING, "migrate cutover"),
        (facts(last=run(SwitchDirection.TO_SOURCES, Outcome.SWITCHED)), Stage.SWITCHING, "migrate rollback"),
        (facts(last=run(SwitchDirection.TO_TARGETS, Outcome.ABORTED)), Stage.READY, "migrate cutover --rehearse"),
        # applications are at the targets
        (facts(**AT_TARGET), Stage.SWITCHED, "migrate --reverse verify"),
        (facts(back=NO_REVERSE, **AT_TARGET), Stage.SWITCHED, "migrate --reverse init"),
        (facts(snapshot(foreign=1), **AT_TARGET), Stage.SWITCHED, "migrate foreign compare"),
        (facts(followed=True, **AT_TARGET), Stage.SWITCHED, "migrate finish"),
        (facts(snapshot(differing=1), followed=True, **AT_TARGET), Stage.SWITCHED, "migrate --reverse verify --repair"),
        (facts(snapshot(parked=1), followed=True, **AT_TARGET), Stage.SWITCHED, "migrate parked list"),
        (
            facts(snapshot(parked=1), followed=True, running=(False, True), **AT_TARGET),
            Stage.SWITCHED,
            "migrate finish",
        ),
        (facts(followed=True, back=IDLE, running=(True, False), **AT_TARGET), Stage.SWITCHED, "migrate --reverse run"),
        (facts(followed=True, running=(False, False), **AT_TARGET), Stage.SWITCHED, "migrate finish"),
        (
            facts(snapshot(parked=1), followed=True, running=(False, False), **AT_TARGET),
            Stage.SWITCHED,
            "migrate parked list",
        ),
        (
            facts(snapshot(parked=1, foreign=1), followed=True, running=(False, False), **AT_TARGET),
            Stage.SWITCHED,
            "migrate foreign compare",
        ),
        (
            facts(
                snapshot(partitions=[PartitionStatus("shop", 0, 5, 9, 5, 5)]),
                followed=True,
                running=(False, False),
                **AT_TARGET,
            ),
            Stage.SWITCHED,
            "migrate run",
        ),
        (facts(stopped=["t0"], **AT_TARGET), Stage.SWITCHED, "migrate cutover --abort"),
        # they were, and are at the sources again
        (facts(last=BACK, done=BACK), Stage.REVERSED, "migrate cutover"),
        (facts(last=BACK, done=BACK, verified=False), Stage.REVERSED, "migrate verify"),
        (facts(last=BACK, done=BACK, back=NO_REVERSE), Stage.REVERSED, "migrate --reverse init"),
        (facts(snapshot(parked=1), last=BACK, done=BACK), Stage.REVERSED, "migrate parked list"),
    ],
)
def test_where_it_stands_and_what_to_type_next(known: StageFacts, stage: Stage, next_: str) -> None:
    found = standing_of(known)
    assert (found.stage, str(found.next)) == (stage, next_), [told(one) for one in found.held]


def test_what_made_nothing_count_as_compared_is_said() -> None:
    """Lost: no row, but whoever was asked for a verification could not know what had happened. Costs nothing."""
    why = {"since": "2026-01-01T00:00:00+00:00", "because": "a publisher was rewound: main"}
    (held,) = standing_of(facts(snapshot(forgotten=why), verified=False)).held
    assert (held.kind, held.as_dict()["facts"]) == (Kind.UNVERIFIED, why)
    assert told(held) == (
        "no verification of all tables was clean since 2026-01-01T00:00:00+00:00, because a publisher was rewound: main"
    )


SNAPSHOTS = [
    *(of_tables(*states) for states in product(STATES, repeat=2)),
    snapshot(published=""),
    snapshot(parked=1, foreign=2, differing=3, empty_deletes=4),
    snapshot(
        lost=[
            LOST_COPY,
            LOST_SPAN,
            LostMessages(BROKER, "shop [0]", 1, 3, 3),
            LostMessages(("t0", "d"), SWITCH, 1, 2, 0),
        ]
    ),
    snapshot(halted=[STOPPED_PARTITION, STOPPED_CHECK], **NOBODY),
    snapshot(unanswered=["away"], gone={"shop"}, endings=ENDED, **NOBODY),
]
RUNS = [None, *(run(direction, outcome) for direction, outcome in product(SwitchDirection, Outcome))]


@pytest.mark.parametrize("side", Side)
def test_whatever_the_facts_there_is_a_stage_with_sentences_and_a_command_that_is_there(side: Side) -> None:
    """Each combination that the phases allow: no blocker is without a sentence, no command without a program."""
    said: set[str] = set()
    seen: set[Stage] = set()
    for now, last, done, verified, followed, back in product(
        SNAPSHOTS, RUNS, (None, THERE, BACK), (True, False), (True, False), (BACK_IS_READY, NO_REVERSE)
    ):
        for running in ((True, True), (False, False)):
            known = facts(
                now, side=side, last=last, done=done, verified=verified, followed=followed, back=back, running=running
            )
            found = standing_of(known)
            assert found.next is not None
            said |= {str(found.next), *(str(one.remedy) for one in found.held if one.remedy)}
            assert all(told(one) for one in found.held)
            assert found.held or found.next.name in ("copy", "cutover", "finish"), found
            assert (found.stage is Stage.SWITCHING) == (last is not None and last.open)
            seen.add(found.stage)
    assert {line: missing_words(line) for line in said if missing_words(line)} == {}
    own = {Stage.SWITCHED} if side is Side.TARGET else set(Stage) - {Stage.SWITCHED, Stage.FINISHED}
    assert seen == own | {Stage.SWITCHING}


def test_each_kind_has_its_sentence() -> None:
    assert set(_TOLD) == set(Kind)


def test_what_a_verification_settles_is_of_those_kinds_alone() -> None:
    now = snapshot(
        doubt="another server",
        foreign=1,
        lost=[LOST_SPAN],
        differing=1,
        left_out_since=1,
        oversized=OVERSIZED,
        parked=1,
    )
    assert {one.kind for one in blockers.until_verified(now)} == UNTIL_VERIFIED
    assert {one.kind for one in blockers.of_stream(SETTINGS, now)} == {*UNTIL_VERIFIED, Kind.PARKED}


def test_sources_that_are_gone_are_not_asked_about() -> None:
    now = snapshot(doubt="another server", problem="away", foreign=1, lag_seconds=1e6, leading={"requeue": "host:3"})
    assert blockers.of_stream(SETTINGS, now, 1.0, [SOURCE]) == []
    assert not_ready(of_tables(TableState.CATCHING_UP), [SOURCE]) == []
    assert [told(one) for one in not_ready(of_tables(TableState.CATCHING_UP))] == ["table shop.t0 is catching up"]


@pytest.mark.parametrize(
    ("seconds", "hurries", "held"),
    [
        (SETTINGS.cutover.max_lag_seconds + SETTINGS.consume.merge_interval_seconds, False, False),
        (SETTINGS.cutover.max_lag_seconds + SETTINGS.consume.merge_interval_seconds + 0.1, False, True),
        (SETTINGS.cutover.max_lag_seconds, True, False),
        (SETTINGS.cutover.max_lag_seconds + 0.1, True, True),
    ],
)
def test_a_stream_may_wait_for_its_merge_until_a_cutover_hurries_it(seconds: float, hurries: bool, held: bool) -> None:
    most = SETTINGS.cutover.max_lag_seconds if hurries else None
    found = blockers.of_stream(SETTINGS, snapshot(lag_of_consumers=seconds), most)
    assert [one.kind for one in found] == ([Kind.BEHIND] if held else [])


@pytest.mark.parametrize(
    ("command", "back", "leads", "line"),
    [
        ("verify --repair", False, False, "migrate verify --repair"),
        ("verify", False, True, "migrate --reverse verify"),
        ("verify", True, False, "migrate verify"),
        ("drain", True, False, "migrate --reverse drain"),
        ("drain", False, True, "migrate drain"),
        ("foreign compare", True, True, "migrate foreign compare"),
    ],
)
def test_a_command_is_typed_in_its_direction(command: str, back: bool, leads: bool, line: str) -> None:
    assert str(typed(Command.of(command), back=back, back_leads=leads)) == line


def test_what_nothing_holds_needs_no_process() -> None:
    assert missing(snapshot()) is None
    assert str(mend(snapshot(), [])) == "migrate verify --repair"


HALT = StopReason(
    "publish:t0", "an unknown statement", "", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
)


@pytest.mark.parametrize(
    ("known", "held", "next_"),
    [
        (reverse_stream.ReverseFacts(), ["the reverse stream is not there"], "migrate --reverse init"),
        (
            reverse_stream.ReverseFacts(refused=ConfigError("name: too long", hint="a shorter one")),
            ["the reverse stream: name: too long (a shorter one)"],
            "migrate preflight",
        ),
        (
            reverse_stream.ReverseFacts(outdated="a table came"),
            ["the reverse stream: a table came"],
            "migrate --reverse init",
        ),
        (
            reverse_stream.ReverseFacts(there=True, stopped=[HALT]),
            ["the reverse stream: publish:t0 is stopped: an unknown statement", "the reverse stream does not run"],
            "migrate --reverse run",
        ),
        (reverse_stream.ReverseFacts(there=True, running=True, now=snapshot(), settings=SETTINGS), [], "None"),
        (
            reverse_stream.ReverseFacts(there=True, running=True, now=snapshot(published=""), settings=SETTINGS),
            [f"the reverse stream: no publisher has begun with source '{SOURCE}'"],
            "migrate --reverse status --watch",
        ),
        (
            reverse_stream.ReverseFacts(
                there=True, running=True, now=snapshot(published="", **NO_PUBLISHER), settings=SETTINGS
            ),
            [
                f"the reverse stream: no publisher has begun with source '{SOURCE}'",
                f"the reverse stream: no publisher reads source '{SOURCE}'",
            ],
            f"migrate --reverse publish --source {SOURCE}",
        ),
        (
            reverse_stream.ReverseFacts(there=True, running=True, now=snapshot(empty_deletes=1), settings=SETTINGS),
            ["the reverse stream: 1 × empty delete waits, for up to 30 min (delay.tiers_seconds)"],
            "migrate --reverse drain",
        ),
        (
            reverse_stream.ReverseFacts(there=True, running=True, now=of_tables(T.CREATED), settings=SETTINGS),
            ["the reverse stream: 1 table (shop.t0) not copied yet"],
            "migrate --reverse init",
        ),
        (
            reverse_stream.ReverseFacts(
                there=True, running=True, leads=True, now=of_tables(T.CREATED), settings=SETTINGS
            ),
            ["the reverse stream: 1 table (shop.t0) not copied yet"],
            "migrate --reverse copy",
        ),
        (
            reverse_stream.ReverseFacts(there=True, running=True, now=of_tables(T.JOINING), settings=SETTINGS),
            [
                "the reverse stream: 1 table (shop.t0) added: the publisher has not reached the place in the log from"
                " which it reads it"
            ],
            "migrate --reverse status --watch",
        ),
        (
            reverse_stream.ReverseFacts(there=True, running=True, now=of_tables(T.WAITING), settings=SETTINGS),
            ["the reverse stream: 1 table (shop.t0) added: start `migrate --reverse run` again if it began before"],
            "migrate --reverse run",
        ),
    ],
)
def test_what_the_reverse_stream_lacks(known: reverse_stream.ReverseFacts, held: list[str], next_: str) -> None:
    found = reverse_stream.judge(known)
    assert [told(one) for one in found.held] == held
    assert str(found.next) == next_


def test_the_page_has_every_kind_and_every_code() -> None:
    page = (ROOT / "docs/status.md").read_text("utf-8").partition("## For programs")[2]
    said = {word for row in page.splitlines() if row.startswith("|") for word in re.findall(r"`([^`]+)`", row)}
    assert said == {one.value for one in (*Kind, *Code)}


@pytest.mark.parametrize(("back_leads", "verify"), [(False, "migrate verify"), (True, "migrate --reverse verify")])
def test_programs_get_each_remedy_as_it_is_typed_for_its_stream(*, back_leads: bool, verify: str) -> None:
    """A remedy of the reverse stream had no direction, and is another command without it."""
    held = [Blocker(Kind.PARKED, facts={"count": 1}, remedy=PARKED), Blocker(Kind.UNVERIFIED, remedy=VERIFY)]
    held.append(held[0].towards(command.Direction.REVERSE))
    stands = StageStatus(Stage.CATCHING_UP, held, None, back_leads=back_leads)
    said = [one["remedy"] for one in as_document(snapshot(), stands)["blockers"]]
    assert said == ["migrate parked list", verify, "migrate --reverse parked list"]
