"""Which checks run, by what is known: a check that cannot run is left out, and no other one with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from migrate.model.errors import ServerError
from migrate.preflight.check import PLANNED, At, Check, Group, Visit, declare
from migrate.preflight.known import KnownFacts
from migrate.preflight.registry import BEYOND_INIT, CHECKS, FOR_INIT
from migrate.preflight.result import Result, Verdict
from migrate.preflight.runner import due, run_checks
from migrate.settings import Settings
from migrate.target.routing import Plan
from tests.helpers import SHARDING, make_settings, plain_table

_TABLES = [{"name": f"shop.{name}", "sharding": SHARDING} for name in ("t", "u")]
_OF_TARGETS = ["packet", "sql_mode", "time zone", "charset", "full text", "counters", "space"]


def settings() -> Settings:
    return make_settings(tables=_TABLES)


def chosen(known: KnownFacts) -> KnownFacts:
    """The source has said which tables it has."""
    known.sources.chosen["s"] = list(known.settings.tables)
    known.sources.flavours["s"] = "mysql"
    return known


def readable(known: KnownFacts, *names: str) -> KnownFacts:
    """The definitions of these tables could be read, and they are planned."""
    found = [replace(plain_table(), name=name) for name in names]
    known.tables = {table.id: table for table in found}
    planned = tuple(one for one in known.settings.tables if one.table in names)
    known.plan = Plan(known.settings.model_copy(update={"tables": planned}), known.tables)
    return known


def everything() -> KnownFacts:
    known = readable(chosen(KnownFacts(settings())), "t", "u")
    known.kafka_answers = known.state.is_read = True
    return known


def named(known: KnownFacts, at: At, name: str, checks: Iterable[Check]) -> list[str]:
    """The checks that run at a server, each with what it looks at, as "sharding shop.t"."""
    some = [check for check in checks if check.at is at]
    found = [(check.name, check.subjects.named(subject)) for check, subject in due(known, name, some)]
    return [" ".join(filter(None, pair)) for pair in found]


def test_where_all_is_known_every_check_runs() -> None:
    known = everything()
    assert known.plan is not None
    ran = {
        check
        for at, name in ((At.SOURCE, "s"), (At.TARGET, "t0"), (At.STATE, "state"), (At.KAFKA, ""), (At.HERE, ""))
        for check, _ in due(known, name, [one for one in CHECKS if one.at is at])
    }
    left_out = [check for check in CHECKS if check not in ran]
    assert {check.name for check in left_out} == {"foreign keys", "triggers", "events"}
    assert {check.at for check in left_out} == {At.TARGET}, "there is no target table to look at yet"


def test_a_source_that_is_away_costs_its_own_checks_alone() -> None:
    known = KnownFacts(settings(), away={"source 's'"})
    assert named(known, At.SOURCE, "s", CHECKS) == []
    assert named(known, At.HERE, "", FOR_INIT) == ["table", "sharding"]
    assert named(known, At.TARGET, "t0", FOR_INIT)[0] == "target"
    assert "state" in named(known, At.STATE, "state", BEYOND_INIT)


def test_a_source_that_went_away_amid_its_checks_is_not_asked_again() -> None:
    known = everything()
    known.away = {"source 's'"}
    assert named(known, At.SOURCE, "s", CHECKS) == ["generated"], "which goes by the definitions that were read"


def test_a_target_that_is_away_costs_its_own_checks_alone() -> None:
    known = everything()
    known.away = {"target 't0'"}
    assert named(known, At.TARGET, "t0", CHECKS) == []
    assert named(known, At.TARGET, "t1", BEYOND_INIT)[-len(_OF_TARGETS) :] == _OF_TARGETS
    assert named(known, At.HERE, "", BEYOND_INIT)[-5:] == ["counters", "space", "space", "web", "encryption"]


def test_a_source_whose_tables_cannot_be_listed_is_asked_for_nothing_else() -> None:
    assert named(KnownFacts(settings()), At.SOURCE, "s", CHECKS) == ["table"]


def test_a_table_that_cannot_be_read_costs_its_own_checks_alone() -> None:
    known = readable(chosen(KnownFacts(settings())), "u")
    first, later = (named(known, At.SOURCE, "s", checks) for checks in (FOR_INIT, BEYOND_INIT))
    assert [one for one in first if one.endswith((".t", ".u"))] == ["table shop.t", "table shop.u", "generated shop.u"]
    of_tables = [one for one in later if one.endswith((".t", ".u"))]
    order = ("space", "counters", "sharding", "misplaced", "broadcast", "truncate", "table", "trial")
    assert of_tables == [f"{check} shop.u" for check in order]


def test_without_a_plan_what_needs_none_still_runs() -> None:
    known = chosen(KnownFacts(settings()))
    of_server = ["target", "session", "writable", "durability", "loading"]
    of_server += ["grants", "grants"]  # more than is needed, and the ways to stop writes there
    assert named(known, At.TARGET, "t0", CHECKS) == of_server
    assert named(known, At.HERE, "", CHECKS) == ["table", "sharding", "space", "web", "encryption"]
    assert named(known, At.SOURCE, "s", BEYOND_INIT) == ["grants"]


def test_a_state_database_that_cannot_be_read_costs_what_goes_by_its_version() -> None:
    known, servers_own = KnownFacts(settings()), ["writable", "durability", "clock", "session", "connections"]
    assert named(known, At.STATE, "state", CHECKS) == ["state", "grants", *servers_own]
    known.state.is_read = True
    assert named(known, At.STATE, "state", CHECKS) == ["state", "grants", "grants", *servers_own, "trial"]


def test_topics_are_looked_at_only_where_kafka_answers() -> None:
    known = KnownFacts(settings())
    assert named(known, At.KAFKA, "", CHECKS) == ["kafka"]
    known.kafka_answers = True
    assert named(known, At.KAFKA, "", CHECKS) == ["kafka", "kafka", "topic", "durability", "topic"]


def test_checks_of_the_same_subjects_all_look_at_one_before_the_next() -> None:
    found = named(everything(), At.SOURCE, "s", BEYOND_INIT)
    pairs = [one for one in found if one.startswith(("counters", "sharding"))]
    assert pairs == ["counters shop.t", "sharding shop.t", "counters shop.u", "sharding shop.u"]


# -- what is made of what a check finds and meets


def _meets(_visit: Visit) -> Iterable[Result]:
    yield Result("sharding", "before", Verdict.PASS, "found before the error")
    raise ServerError("the server is gone", hint="start it")


def _finds(_visit: Visit) -> Iterable[Result]:
    return [Result("sharding", "t", Verdict.PROBLEM, "no table takes this row", "change the rule")]


_MEETS = declare("sharding", Group.SCHEMA, At.HERE, _meets, ())
_FINDS = declare("sharding", Group.SCHEMA, At.HERE, _finds, ())


def test_an_error_is_no_problem_that_was_found_and_the_next_check_runs() -> None:
    known = KnownFacts(settings())
    run_checks(known, [_MEETS, replace(_FINDS, needs=PLANNED), _FINDS])
    told = [(one.verdict, one.subject, one.message, one.mend) for one in known.results]
    assert told == [
        (Verdict.UNKNOWN, "here", "the server is gone", "start it"),
        (Verdict.PROBLEM, "t", "no table takes this row", "change the rule"),
    ]


def test_for_init_an_error_is_raised() -> None:
    with pytest.raises(ServerError, match="is gone"):
        run_checks(KnownFacts(settings(), is_strict=True), [_MEETS, _FINDS])


def test_a_server_that_does_not_answer_is_told_once_and_the_others_are_asked() -> None:
    away = {"host": "127.0.0.1", "port": 1, "user": "u", "password": "not-a-sample"}
    targets = [{"name": name, **away} for name in ("t0", "t1")]
    known = KnownFacts(make_settings(targets=targets))
    run_checks(known, [check for check in CHECKS if check.at is At.TARGET])
    assert [(one.check, one.subject, one.verdict) for one in known.results] == [
        ("target", "t0", Verdict.UNKNOWN),
        ("target", "t1", Verdict.UNKNOWN),
    ]
    assert known.away == {"target 't0'", "target 't1'"}


@pytest.mark.parametrize("attribute", ["connection", "plan"])
def test_a_check_has_only_what_it_declares_to_need(attribute: str) -> None:
    with pytest.raises(LookupError, match="does not declare"):
        getattr(Visit(KnownFacts(settings())), attribute)
