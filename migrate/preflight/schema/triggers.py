"""Triggers and events at the target: nothing can switch them off for our sessions, so they must not be there (0009)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from migrate.mysql import grants
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import table as quoted
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema.existing import Existing

_USER = re.compile(r"\b(?:session_|system_)?user\s*\(\s*\)", re.I)


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
    told = "triggers are not created at the target; their changes come through the stream"
    mend = "make them there after the switch"
    return [
        Result("triggers", table, Verdict.NOTE, f"{table}: {told}: {', '.join(names)}", mend)
        for table, names in found.items()
    ]


def of_tables(connection: Connection, existing: Existing, *, reverse: bool) -> list[Result]:
    """A problem for each trigger on a target table that is there; one that leaves our sessions out passes.

    reverse: the target is the source that applications still write to, so that nothing may be dropped.
    """
    rows = connection.query(
        "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_STATEMENT"
        " FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s ORDER BY TRIGGER_NAME",
        [existing.database],
    )
    us = str(connection.query("SELECT USER()")[0][0]).rpartition("@")[0]
    found = []
    for name, table, timing, event, body in rows:
        if table not in existing.tables:
            continue
        where = str(existing.tables[table][0])
        told = f"{where}: trigger {name} ({timing} {event})"
        if leaves_out(str(body), us):
            found.append(Result("triggers", where, Verdict.PASS, f"{told} leaves our sessions out"))
            continue
        if reverse:
            told += " would fire for what the reverse stream brings"
            guard = f"IF USER() NOT LIKE '{us}@%' THEN … END IF"
            mend = f"make it again with its body inside {guard}, which changes nothing for applications"
        else:
            told += " would do once more what the source's did"
            mend = f"DROP TRIGGER {quoted(existing.database, name)}; make it again after the switch"
        found.append(Result("triggers", where, Verdict.PROBLEM, told, mend))
    return found


def leaves_out(body: str, user: str) -> bool:
    """Whether a trigger's body asks who the session is, and names our account. CURRENT_USER() is the trigger's definer
    there (MySQL manual, "Stored Object Access Control"), and does not count."""
    named = re.escape(user).replace("_", r"\\?_")  # as it stands in a pattern of LIKE
    return _USER.search(body) is not None and re.search(rf"(?<![\w$]){named}(?![\w$])", body) is not None


def events(connection: Connection, existing: Existing, *, reverse: bool) -> list[Result]:
    """A problem for each event that speaks of a target table that is there. With reverse it goes on, and what it does
    after the switch arrives at the other side.

    An event's statements are not understood: one that has a table's name in them is taken to change it.
    """
    rows = connection.query(
        "SELECT EVENT_SCHEMA, EVENT_NAME, EVENT_DEFINITION FROM information_schema.EVENTS WHERE STATUS = 'ENABLED'"
        " ORDER BY EVENT_SCHEMA, EVENT_NAME"
    )
    results = []
    for schema, name, body in rows:
        named = [table for table in existing.tables if _speaks_of(str(body), table)]
        if schema != existing.database and not _speaks_of(str(body), existing.database):
            continue
        told, subject = f"{connection.name}: event {schema}.{name}", f"{schema}.{name}"
        if named and not reverse:
            mend = f"ALTER EVENT {quoted(schema, name)} DISABLE; enable it again after the switch"
            message = f"{told} may change rows of {', '.join(sorted(named)[:5])}"
            results.append(Result("events", subject, Verdict.PROBLEM, message, mend))
        elif named:
            message = f"{told} may change rows of {', '.join(sorted(named)[:5])}; what it does after a cutover arrives"
            mend = (
                f"where it is to run at the other side then: ALTER EVENT {quoted(schema, name)} DISABLE, at the switch"
            )
            results.append(Result("events", subject, Verdict.NOTE, f"{message} at the other side", mend))
        elif not reverse:
            message = f"{told} runs while the service writes; it names none of the tables that take them"
            results.append(Result("events", subject, Verdict.NOTE, message))
    return results


def _speaks_of(body: str, name: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", body, re.I) is not None


def hidden(connection: Connection, existing: Existing, *, reverse: bool) -> list[Result]:
    """A note where the account lacks the grants to see triggers or events of a database that has target tables."""
    held = grants.read(connection)
    missing = held.lacking(existing.database, ("TRIGGER", "EVENT"))
    if not missing:
        return []
    what = " and ".join(f"{name.lower()}s" for name in missing)
    told = f"{connection.name}: this account cannot see {what} of database {existing.database}"
    for_now = f"for the time of preflight: {held.mend(existing.database, missing)}"
    if reverse:
        told += ", which would fire for what the reverse stream brings"
        mend = f"make sure that each of them leaves it out (docs/cutover.md), or {for_now}"
    else:
        told += ", which has tables already"
        mend = f"make sure that there are none, or {for_now}"
    return [Result("triggers", existing.database, Verdict.NOTE, told, mend)]
