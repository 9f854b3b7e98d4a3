"""What the account under kafka.security may do with the topics and groups, by the processes that need it."""

from __future__ import annotations

from migrate.kafka import rights
from migrate.kafka.rights import Process, Right
from migrate.preflight.result import Result, Verdict
from migrate.settings import Settings


def check(settings: Settings) -> list[Result]:
    """Changes nothing at the broker. Raises ServerError."""
    needed: dict[Right, list[Process]] = {}
    for process in Process:
        for right in rights.of(settings, process):
            needed.setdefault(right, []).append(process)
    lacks = rights.lacking(settings.kafka, needed)
    if not lacks:
        may = Result("kafka", "rights", Verdict.PASS, "the account may do what the processes need of the topics")
        return [may] if settings.kafka.security else []
    return [
        Result(
            "kafka",
            right.name,
            Verdict.PROBLEM,
            f"the account lacks {right}, needed by " + ", ".join(f"`migrate {process}`" for process in needed[right]),
            f"kafka-acls.sh {right.grant(settings.kafka)}; a process with an account of its own is looked at with that",
        )
        for right in lacks
    ]
