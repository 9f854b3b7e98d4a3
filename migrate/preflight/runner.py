"""Runs checks in order: each server is opened once for those that follow one another there, and each check's error
becomes a result of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

from migrate.mysql.connection import Connection
from migrate.preflight.check import At, Check, Need, Visit
from migrate.preflight.known import KnownFacts
from migrate.preflight.result import Result, guarded
from migrate.preflight.server_checks import ServerChecks
from migrate.settings import Server, Settings


def run_checks(known: KnownFacts, checks: Iterable[Check]) -> None:
    """What they find is added to `known`. Raises MigrateError where `known` is strict: of sources, and of checks that
    look at no server."""
    for at, there in groupby(checks, lambda check: check.at):
        some = [*there]
        if at in (At.HERE, At.KAFKA):
            _run_here(known, some)
        else:
            for name, server in servers(known.settings, at):
                _run_at(known, at, name, server, some)


def servers(settings: Settings, at: At) -> list[tuple[str, Server]]:
    """The servers at which checks look, by name."""
    if at is At.SOURCE:
        return [(one.name, one) for one in settings.sources]
    if at is At.TARGET:
        return [(one.name, one) for one in settings.targets]
    return [(at.value, settings.state)] if at is At.STATE else []


def where(at: At, name: str) -> str:
    """A server as results and `KnownFacts.away` name it."""
    if at in (At.SOURCE, At.TARGET):
        return f"{at} '{name}'"
    return "state server" if at is At.STATE else at.value


def lacking(check: Check, known: KnownFacts, name: str = "") -> frozenset[Need]:
    """What a check needs and nobody knows; it is left out then, as an earlier result says why."""
    has = {
        Need.CONNECTION: known.kafka_answers if check.at is At.KAFKA else where(check.at, name) not in known.away,
        Need.TABLES: name in known.sources.flavours,
        Need.PLAN: known.plan is not None,
        Need.STATE_VERSION: known.state.is_read,
    }
    return frozenset(need for need in check.needs if not has[need])


def due(known: KnownFacts, name: str, checks: Sequence[Check]) -> Iterator[tuple[Check, object]]:
    """Checks in order, each with a subject to look at; asked for one by one, as one check may find what the next one
    needs. Checks that follow one another and have the same subjects all look at one before the next one."""
    for subjects, there in groupby(checks, lambda check: check.subjects):
        some = [*there]
        if all(lacking(check, known, name) for check in some):
            continue
        for subject in subjects.listed(Visit(known, name)):
            for check in some:
                if not lacking(check, known, name):
                    yield check, subject


def _run_here(known: KnownFacts, checks: Sequence[Check]) -> None:
    for check, subject in due(known, "", checks):
        _run_unconnected(known, "", check, subject)


def _run_at(known: KnownFacts, at: At, name: str, server: Server, checks: Sequence[Check]) -> None:
    if all(lacking(check, known, name) for check in checks):
        return
    strict = known.is_strict and at is At.SOURCE
    with ServerChecks(server, (at.value, name), where(at, name), known.results, known.away, strict=strict) as opened:
        for check, subject in due(known, name, checks):
            if Need.CONNECTION in check.needs:
                opened.run(check.name, partial(_found, known, name, check, subject), _named(check, subject))
            else:
                _run_unconnected(known, name, check, subject)


def _found(known: KnownFacts, name: str, check: Check, subject: object, connection: Connection) -> Iterable[Result]:
    return check.run(Visit(known, name, connection), subject)


def _run_unconnected(known: KnownFacts, name: str, check: Check, subject: object) -> None:
    def run() -> list[Result]:
        return [*check.run(Visit(known, name), subject)]

    if known.is_strict:
        known.results += run()
    else:
        known.results += guarded(check.name, _named(check, subject) or where(check.at, name), run)


def _named(check: Check, subject: object) -> str:
    """What a result is about when the check could not look; "" for the server."""
    return check.subjects.named(subject) or check.subject
