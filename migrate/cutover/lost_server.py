"""A server of the side that is left that will not come back: applications leave without its last writes.

What its binlog had to say and was not published is lost with it: it is asked for by name, and told (docs/rollback.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing

import sqlalchemy as sa

from migrate.model.change import key_json
from migrate.model.errors import Code, PreflightError, ServerError
from migrate.model.times import in_utc
from migrate.model.words import counted
from migrate.mysql.connection import connect
from migrate.mysql.errors import unreachable
from migrate.settings import Settings, Source, Target
from migrate.state import foreign, position, stop_reason
from migrate.state.foreign import Kind

_NAMED = 20


def known(names: Collection[str], stream: Settings) -> None:
    """Raises PreflightError for a name that is no server of the side that is left."""
    servers = [source.name for source in stream.sources]
    if unknown := [name for name in names if name not in servers]:
        raise PreflightError(f"no server there is named '{unknown[0]}'", hint=f"there are: {', '.join(servers)}")


def refuse_answering(servers: Iterable[Source | Target], names: Collection[str], seconds: float | None = None) -> None:
    """Raises PreflightError when a server that is said to be gone answers: applications may still write to it.

    seconds: to wait for it at most; else its `connect_timeout`, as a firewall says nothing.
    """
    for source in servers:
        if source.name not in names:
            continue
        try:
            patience = min(source.connect_timeout, seconds or source.connect_timeout)
            connection = connect(source.model_copy(update={"connect_timeout": patience}), f"'{source.name}'")
        except ServerError as error:
            if unreachable(error.__cause__):
                continue
            raise PreflightError(
                f"'{source.name}' answers, and refuses: {error.message}",
                hint="a server counts as gone only if it does not answer",
            ) from error
        with closing(connection):
            raise PreflightError(
                f"'{source.name}' answers: what was written there can still be brought back",
                hint=f"leave out `--without {source.name}`; if the server must not come back, shut it down first",
            )


def waiting(connection: sa.Connection, stream: Settings) -> list[str]:
    """Partitions of a stream that are blocked as rows cannot be read again at a server."""
    halted = stop_reason.every(connection, stream.name)
    return [one.process for one in halted if stop_reason.is_partition(one.process) and one.code == Code.SOURCE]


def notes_of_waiting(connection: sa.Connection, stream: Settings, names: Collection[str]) -> list[str]:
    """What becomes of partitions that wait for servers that are to be given up."""
    if not names or not (blocked := waiting(connection, stream)):
        return []
    return [
        f"{counted(len(blocked), 'partition')} of the stream blocked, as rows cannot be read again. With --yes nothing"
        f" is read at {', '.join(sorted(names))}: a row that no other server has stays at the standby side as it is"
        " there, and is listed"
    ]


def notes_of_unread(connection: sa.Connection, stream: Settings, kept: str) -> list[str]:
    """The rows that a server which was given up may have, by name. kept: the side that has them as they were."""
    found = [one for one in foreign.every(connection, stream.name) if one.kind is Kind.UNREAD]
    if not found:
        return []
    names = [
        f"  {'.'.join(one.id[1:])} {'every key' if one.key is None else f'key {key_json(one.key)}'}"
        for one in found[:_NAMED]
    ]
    return [
        f"{counted(len(found), 'row')}: deleted at a server that answers, or moved to the lost one, and nothing tells"
        f" which. The {kept} have them as they were; delete those that applications deleted:",
        *names,
        *(["`migrate foreign list` names all of them"] if len(found) > _NAMED else []),
    ]


def delivered(connection: sa.Connection, stream: Settings, names: Collection[str]) -> dict[str, str]:
    """Of each of the servers, up to where its writes are on their way or at the other side."""
    found = {}
    for name in names:
        where = position.load(connection, stream.name, name)
        time = f", committed {in_utc(where.event_time)}" if where and where.event_time else ""
        found[name] = f"up to {where.file}:{where.pos}{time}" if where else "nothing"
    return found
