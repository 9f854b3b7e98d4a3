"""`migrate refresh`: have single rows read at the source again, and set right at every place (rule 16)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

import sqlalchemy as sa

from migrate.model.change import Key, key_json
from migrate.model.errors import ConfigError, StopError
from migrate.model.table import Kind
from migrate.mysql.keys import canonical
from migrate.ops.runtime import stored_plan
from migrate.settings import Settings
from migrate.target.asking import bring
from migrate.target.plan import Plan, PlannedTable


def refresh(
    settings: Settings, state: sa.Engine, name: str, keys: Sequence[str], source: str | None, timeout_seconds: float
) -> int:
    """Ask for rows to be refreshed, and wait until their owner has done so; returns how many.

    Args: name: the table, as database.table. keys: one text for each row, or a JSON list for a key of several columns.
    Raises: ConfigError for a table or key that is none, StopError when the partition stands still, ServerError when
    nothing consumed it in time.
    """
    planned = find(stored_plan(settings, state), name, source)
    wanted = dict.fromkeys(parse_key(planned, text) for text in keys)
    bring(settings, state, planned, [*wanted], timeout_seconds)
    return len(wanted)


def find(plan: Plan, name: str, source: str | None) -> PlannedTable:
    """The table of that name. Raises ConfigError when there is none, or one at several sources."""
    found = [one for one in plan.tables.values() if one.table.full_name == name and source in (None, one.table.source)]
    if not found:
        names = ", ".join(sorted({one.table.full_name for one in plan.tables.values()}))
        raise ConfigError(f"the migration has no table {name}", hint=f"its tables: {names}")
    if len(found) > 1:
        sources = ", ".join(sorted(one.table.source for one in found))
        raise ConfigError(f"several sources have {name}", hint=f"choose one with --source: {sources}")
    return found[0]


def parse_key(planned: PlannedTable, text: str) -> Key:
    """The key that a person wrote. Raises ConfigError when it does not fit the table's."""
    table = planned.table
    parts: object = [text]
    if len(table.key) > 1 or text.startswith("["):
        with suppress(ValueError):
            parts = json.loads(text)
    fits = isinstance(parts, list) and len(parts) == len(table.key)
    if not isinstance(parts, list) or not fits or not all(isinstance(part, str | int) for part in parts):
        example = key_json(tuple("7" if column.kind is Kind.INT else "text" for column in table.key_columns))
        raise ConfigError(
            f"{text} is no key of {table.full_name}, which is made of {', '.join(table.key)}",
            hint=f"write it as a JSON list of texts: '{example}'" if len(table.key) > 1 else "write its value",
        )
    try:
        return tuple(canonical(column, str(part)) for column, part in zip(table.key_columns, parts, strict=True))
    except StopError as error:
        raise ConfigError(f"{text} is no key of {table.full_name}: {error.message}") from None
