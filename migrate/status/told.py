"""The sentence for each thing that holds a migration back: the only place that words them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from migrate.model.command import Direction
from migrate.model.words import counted, duration
from migrate.state.compared import FORGOTTEN
from migrate.status.blocker import Blocker, Kind

Facts = Mapping[str, Any]
_STREAM = {None: "", Direction.FORWARD: "the forward stream: ", Direction.REVERSE: "the reverse stream: "}


def told(one: Blocker) -> str:
    """In a line."""
    return _STREAM[one.stream] + _TOLD[one.kind](one.subject, one.facts)


def tables(names: Sequence[str]) -> str:
    """How many, and the first of them by name."""
    return f"{counted(len(names), 'table')} ({', '.join(names[:3])}{' …' if len(names) > 3 else ''})"


def foreign(count: int) -> str:
    """Rows that hold a switch back until they were found equal."""
    told = f"{counted(count, 'row')} written at a standby side, or too late, and not found equal since"
    return f"{told}: `migrate foreign list`"


def differs(keys: int) -> str:
    return f"{counted(keys, 'row')} found different, and not verified since"


def _ended(facts: Facts) -> str:
    """How the last process of a kind ended, where that is known."""
    return "".join(f": the last one ended at {one['at']}: {one['reason']}" for one in facts["ended"])


def _behind(facts: Facts) -> str:
    allowed = facts["allowed_seconds"]
    if (interval := facts["merge_interval_seconds"]) is None:
        return f"cutover.max_lag_seconds ({allowed:g})"
    return f"cutover.max_lag_seconds and consume.merge_interval_seconds ({allowed:g} + {interval:g})"


def _forgotten(facts: Facts) -> str:
    return f"{facts['since']}, because {facts['because']}" if "because" in facts else FORGOTTEN


def _waiting(facts: Facts) -> str:
    if facts["reverse"]:
        return "start `migrate --reverse run` again if it began before"
    again = "" if facts["starts"] else "; start one that began before it again"
    return f"a publisher that starts after `migrate init` reads it{again}"


_TOLD: dict[Kind, Callable[[str, Facts], str]] = {
    Kind.STOPPED: lambda subject, of: f"{subject} is stopped: {of['reason']}",
    Kind.SOURCE_UNREACHABLE: lambda subject, of: f"source '{subject}': {of['reason']}",
    Kind.NOT_BEGUN: lambda subject, _: f"no publisher has begun with source '{subject}'",
    Kind.TOPIC_GONE: lambda subject, _: f"topic {subject} is not at the broker",
    Kind.NO_ANSWER: lambda _, of: str(of["reason"]),
    Kind.NO_PUBLISHER: lambda subject, of: f"no publisher reads source '{subject}'{_ended(of)}",
    Kind.NO_CONSUMER: lambda _, of: f"no consumer works on {counted(of['partitions'], 'partition')}{_ended(of)}",
    Kind.REPLAYING: lambda subject, of: f"source '{subject}' is replayed up to {of['upto']}",
    Kind.BEHIND: lambda _, of: f"it is {of['seconds']:.1f} s behind, above {_behind(of)}",
    Kind.EMPTY_DELETES: lambda _, of: (
        f"{of['count']} × empty delete waits, for up to {duration(of['seconds'])} (delay.tiers_seconds)"
    ),
    Kind.MARKERS: lambda _, of: f"{of['count']} × marker of a foreign key waits for its table's copy to close",
    Kind.OUTDATED: lambda _, of: (
        f"{counted(of['count'], 'key')} skipped by update_time and not refreshed yet: that is when the table is copied"
        " and caught up"
    ),
    Kind.PARKED: lambda _, of: f"{of['count']} × change is parked",
    Kind.SKIPPED: lambda _, of: f"{of['count']} × key is skipped",
    Kind.TABLE_NOT_READY: lambda subject, of: f"table {subject} is {of['state']}",
    Kind.SERVER_IN_DOUBT: lambda subject, of: f"source '{subject}': {of['reason']}",
    Kind.FOREIGN: lambda _, of: foreign(of["count"]),
    Kind.LOST: lambda _, of: f"{of['lost']}, not verified since",
    Kind.DIFFERENT: lambda _, of: differs(of["count"]),
    Kind.MESSAGES_LEFT_OUT: lambda _, of: f"{of['count']} × message is skipped, and its changes are not verified since",
    Kind.ROWS_LEFT_OUT: lambda _, of: f"{of['count']} × row is left out of the stream, and not verified since",
    Kind.ADDED_WAITING: lambda _, of: f"{tables(of['tables'])} added: {_waiting(of)}",
    Kind.ADDED_JOINING: lambda _, of: (
        f"{tables(of['tables'])} added: the publisher has not reached the place in the log from which it reads it"
    ),
    Kind.NOT_COPIED: lambda _, of: f"{tables(of['tables'])} not copied yet",
    Kind.COPY_RUNS: lambda *_: "a copy runs: wait for it; a second one would end it",
    Kind.UNVERIFIED: lambda _, of: f"no verification of all tables was clean since {_forgotten(of)}",
    Kind.VERIFIED_TOO_LONG_AGO: lambda _, of: (
        f"the last clean verification of all tables began more than {of['hours']:g} h ago"
        " (cutover.verified_within_hours)"
    ),
    Kind.TRIGGER: lambda _, of: str(of["reason"]),
    Kind.UNLIKE: lambda _, of: str(of["reason"]),
    Kind.CASCADES: lambda _, of: str(of["reason"]),
    Kind.WRITABLE_AGAIN: lambda subject, of: (
        f"{of['side']} '{subject}' is no longer read-only, as after a restart: applications that do not follow the"
        " switch can write there (SET GLOBAL read_only = 1)"
    ),
    Kind.RUN_SWITCHED: lambda _, of: f"run {of['run']}, a {of['command']}, has switched; its last steps are left",
    Kind.RUN_OPEN: lambda _, of: (
        f"run {of['run']}, a {of['command']}, is under way, or was killed: writes may be stopped"
    ),
    Kind.WRITES_STOPPED: lambda subject, of: (
        f"an earlier cutover may have left writes stopped at {of['side']} '{subject}': `migrate cutover --abort` gives"
        " them back"
    ),
    Kind.NOT_FOLLOWED: lambda *_: (
        "no verification since the switch shows that the sources follow, which a rollback needs"
    ),
    Kind.STILL_RUNS: lambda *_: (
        "the migration still runs, so that a rollback stays possible; to end it, stop `migrate run` and"
        " `migrate --reverse run` first"
    ),
    Kind.NEVER_APPLIED: lambda _, of: (
        f"{counted(of['count'], 'message')} of changes at the sources never came to the targets"
    ),
    Kind.SOURCE_MOVED: lambda subject, of: (
        f"source '{subject}' is read at {of['read']} since a failover, and the reverse stream writes to"
        f" {of['written']}: put {of['read']} first in the config (host, port, and the other one under addresses), and"
        " start `migrate --reverse run` again; after a switch, run `migrate --reverse verify` then"
    ),
    Kind.REFUSED: lambda _, of: f"{of['reason']} ({of['way_out']})" if of["way_out"] else str(of["reason"]),
    Kind.NOT_THERE: lambda *_: "the reverse stream is not there",
    Kind.NOT_RUNNING: lambda *_: "the reverse stream does not run",
    Kind.NOT_CARRYING: lambda *_: (
        "the reverse stream does not run: what applications write at the targets does not reach the sources"
    ),
}
