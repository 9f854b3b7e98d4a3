"""What is kept of a finished migration, as values and as a page to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from migrate.settings import Settings
from migrate.state import cutover, finished, verification
from migrate.status.stage import Stage


def read(settings: Settings, state: sa.Engine) -> dict[str, Any] | None:
    """What is kept of a finished migration; None of one that is not."""
    with state.connect() as connection:
        found = finished.find(connection, settings.name)
        if found is None:
            return None
        last = verification.latest(connection, settings.name)
        switched = cutover.latest(connection, settings.name, outcome=cutover.Outcome.DONE)
    return {
        "stage": Stage.FINISHED,
        "holds_back": [] if found.done else ["`migrate finish` was interrupted: not everything is cleaned up"],
        "next": "" if found.done else f"migrate finish {found.summary.get('options', '--yes')}",
        "migration": settings.name,
        "finished": found.at,
        "summary": found.summary,
        "last_cutover": asdict(switched) if switched is not None else None,
        "last_verification": asdict(last) if last is not None else None,
    }


def told(about: Mapping[str, Any]) -> str:
    """In lines."""
    ended, side = about["finished"], about["summary"]["side"]
    lines = [f"stage: finished, {ended:%Y-%m-%d %H:%M:%S} UTC; applications are at the {side}s"]
    lines += [f"  held back: {reason} (`{about['next']}` continues it)" for reason in about["holds_back"]]
    if switched := about["last_cutover"]:
        lines.append(f"last switch: run {switched['number']}, {switched['direction']}, {switched['outcome']}")
    for table in about["summary"]["copied"]:
        rows, began, ended = table["rows_inserted"], table["began"], table["ended"]
        lines.append(f"table {table['table']}: {rows:,} rows copied, {began} to {ended}")
    lines.append(f"{about['summary']['changes']:,} changes applied")
    if last := about["last_verification"]:
        lines.append(
            f"last verification: {last['finished']}, {last['rows']:,} rows, {last['differences']:,} differences;"
            " `migrate verify --show`"
        )
    return "\n".join(lines)
