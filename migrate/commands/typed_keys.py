"""Keys as a person types them on the command line, and which rows they name: the servers decide what is equal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import product

import sqlalchemy as sa

from migrate.chunks.sessions import Sessions
from migrate.model.change import Key, key_json
from migrate.model.errors import ConfigError, ServerError, StopError
from migrate.model.table import Kind
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.mysql.keys import among
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.typed_key import candidates
from migrate.mysql.values import compared, from_server
from migrate.settings import Settings
from migrate.state import position
from migrate.target.routing import Plan, PlannedTable

_EXAMPLES = {Kind.INT: "7", Kind.DECIMAL: "1.50", Kind.DATE: "2024-12-31", Kind.DATETIME: "2024-12-31 23:59:59"}
_MOST = 16
"""Of what a key may stand for; beyond that its columns are taken as commands print them."""


def typed_keys(
    settings: Settings, state: sa.Engine, plan: Plan, planned: PlannedTable, texts: Sequence[str]
) -> list[Key]:
    """The keys that a person wrote, each as its row has it, where there is one.

    Args: one text for each row, or a JSON list for a key of several columns.
    Raises: ConfigError when one does not fit the table's key, ServerError.
    """
    with closing(Sessions(position.where_read(state, settings))) as sessions:
        return [typed_key(sessions, planned, plan.members(planned), text) for text in texts]


def typed_key(sessions: Sessions, planned: PlannedTable, members: Sequence[PlannedTable], text: str) -> Key:
    """As `typed_keys`, of one; members: the tables that share its places."""
    table = planned.table
    try:
        with explained("targets"):
            found = [
                candidates(column, part, lambda: sessions.targets.get(planned.databases[0]))
                for column, part in zip(table.key_columns, _parts(planned, text), strict=True)
            ]
    except StopError as error:
        hint = "write it as commands print it, or as the server takes it; labels of ENUM and SET as they are"
        raise ConfigError(f"{text} is no key of {table.full_name}: {error.message}", hint=hint) from None
    keys = [*product(*found)] if _count(found) <= _MOST else [tuple(one[0] for one in found)]
    if len(keys) == 1 and table.key_is_exact:
        return keys[0]
    with explained("source and targets"):
        return next((own for key in keys for own in _rows(sessions, planned, members, key)), keys[0])


def _count(found: Sequence[Sequence[str]]) -> int:
    count = 1
    for one in found:
        count *= len(one)
    return count


def _parts(planned: PlannedTable, text: str) -> list[str]:
    """The text of each column of the key. Raises ConfigError when it has others."""
    table = planned.table
    parts: object = [text]
    if len(table.key) > 1 or text.startswith("["):
        with suppress(ValueError):
            parts = json.loads(text, parse_int=str, parse_float=str)
    if isinstance(parts, list) and len(parts) == len(table.key) and all(isinstance(part, str) for part in parts):
        return parts
    example = key_json(tuple(_EXAMPLES.get(column.kind, "text") for column in table.key_columns))
    raise ConfigError(
        f"{text} is no key of {table.full_name}, which is made of {', '.join(table.key)}",
        hint=f"write it as a JSON list of texts: '{example}'" if len(table.key) > 1 else "write its value",
    )


def _rows(sessions: Sessions, planned: PlannedTable, members: Sequence[PlannedTable], key: Key) -> Iterator[Key]:
    """The key as each row has it that the servers find by it: at the sources, then at the places."""
    for one in members:
        with suppress(ServerError):  # it is away, and some commands are for just that
            source = sessions.source(one.table.source)
            yield from _found(source, one, full_name(one.table.database, one.table.name), key)
    for place in planned.places:
        yield from _found(sessions.targets.get(place.database), planned, quote(place.table), key)


def _found(connection: Connection, planned: PlannedTable, name: str, key: Key) -> Iterator[Key]:
    columns = planned.table.key_columns
    where, arguments = among(planned.table, [key])
    fields = ", ".join(map(compared, columns))
    for row in connection.query(f"SELECT {fields} FROM {name} WHERE {where}", arguments):
        yield tuple(str(from_server(column)(value)) for column, value in zip(columns, row, strict=True))
