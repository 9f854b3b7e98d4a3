"""Triggers and events at the target: nothing can switch them off for our sessions, so they must not be there (0009)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from migrate.mysql import grants
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import table as quoted
from migrate.preflight.existing import Existing
from migrate.preflight.result import Result, Verdict


def check(connection: Connection, tables: Sequence[tuple[str, str]]) -> list[Result]:
    """A note for each selected table of a source that has any, as far as its user may see them."""
    selected = set(tables)
    found: dict[str, list[str]] = {}
    for name, schema, table in connection.query(
        "SELECT TRIGGER_NAME, EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS"
        " WHERE TRIGGER_SCHEMA NOT IN ('sys', 'mysql') ORDER BY TRIGGER_NAME"
    ):
        if (schema, table) in selected:
            found.setdefault(f"{schema}.{table}", []).append(str(name))
    told = "triggers are not made at the target, what they did comes through the stream"
    mend = "make them there after the switch"
    return [
        Result("triggers", table, Verdict.NOTE, f"{table}: {told}: {', '.join(names)}", mend)
        for table, names in found.items()
    ]


def check_target(connection: Connection, existing: Existing) -> list[Result]:
    """A problem for each trigger on a target table that is there, and for each event that speaks of one."""
    return [*_triggers(connection, existing), *_events(connection, existing), *_hidden(connection, existing)]


def _triggers(connection: Connection, existing: Existing) -> list[Result]:
    rows = connection.query(
        "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION FROM information_schema.TRIGGERS"
        " WHERE EVENT_OBJECT_SCHEMA = %s ORDER BY TRIGGER_NAME",
        [existing.database],
    )
    return [
        Result(
            "triggers",
            str(existing.tables[table][0]),
            Verdict.PROBLEM,
            f"{existing.tables[table][0]}: trigger {name} ({timing} {event}) would do once more what the source's did",
            f"DROP TRIGGER {quoted(existing.database, name)}; make it again after the switch",
        )
        for name, table, timing, event in rows
        if table in existing.tables
    ]


def _events(connection: Connection, existing: Existing) -> list[Result]:
    """An event's statements are not understood: one that has a table's name in them is taken to change it."""
    rows = connection.query(
        "SELECT EVENT_SCHEMA, EVENT_NAME, EVENT_DEFINITION FROM information_schema.EVENTS WHERE STATUS = 'ENABLED'"
        " ORDER BY EVENT_SCHEMA, EVENT_NAME"
    )
    results = []
    for schema, name, body in rows:
        named = [table for table in existing.tables if _speaks_of(str(body), table)]
        if schema != existing.database and not _speaks_of(str(body), existing.database):
            continue
        told = f"{connection.name}: event {schema}.{name}"
        if named:
            mend = f"ALTER EVENT {quoted(schema, name)} DISABLE; enable it again after the switch"
            message = f"{told} may change rows of {', '.join(sorted(named)[:5])}"
            results.append(Result("events", f"{schema}.{name}", Verdict.PROBLEM, message, mend))
        else:
            message = f"{told} runs while rows are brought; it names none of the tables that take them"
            results.append(Result("events", f"{schema}.{name}", Verdict.NOTE, message))
    return results


def _speaks_of(body: str, name: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", body, re.I) is not None


def _hidden(connection: Connection, existing: Existing) -> list[Result]:
    """What an account without these grants does not get to see."""
    missing = grants.read(connection).lacking(existing.database, ("TRIGGER", "EVENT"))
    if not missing:
        return []
    what = " and ".join(f"{name.lower()}s" for name in missing)
    told = (
        f"{connection.name}: this account cannot see {what} of database {existing.database}, which has tables already"
    )
    mend = f"make sure that there are none, or GRANT {', '.join(missing)} on it for the time of preflight"
    return [Result("triggers", existing.database, Verdict.NOTE, told, mend)]
