"""Tables whose rows change without the log saying so, and that no marker follows: what came that way since the
verification nobody would see."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from migrate.cutover.left_server import LeftServer
from migrate.model.errors import ServerError
from migrate.mysql.errors import explained, unreachable
from migrate.mysql.foreign_keys import logs_cascades
from migrate.preflight.schema import cascades
from migrate.settings import Cutover
from migrate.target.routing import Plan


def left_out(servers: Sequence[LeftServer], plan: Plan, settings: Cutover) -> list[str]:
    """What keeps a cutover from leaving these servers, for each such table of theirs; nothing of a server that does not
    answer, as that does by itself. Raises ServerError."""
    if settings.cascades == "unused":
        return []
    unused = frozenset(settings.cascades) if isinstance(settings.cascades, tuple) else frozenset()
    found: list[str] = []
    for server in servers:
        try:
            there = _unfollowed(server, plan, unused)
        except ServerError as error:
            if not unreachable(error.__cause__):
                raise
            continue
        found += [f"{told}; {way}" for told, way in there]
    return found


def _unfollowed(server: LeftServer, plan: Plan, unused: Collection[str]) -> list[tuple[str, str]]:
    """unused: tables, as database.table, of which nothing is said."""
    selected = {
        id_[1:]: {one.column.name for one in planned.rows.conditions} if planned.rows is not None else set()
        for id_, planned in plan.tables.items()
        if id_[0] == server.name
    }
    ours = ((id_[1:], one) for id_, one in plan.tables.items() if id_[0] == server.name)
    mirrors = {name for name, planned in ours if planned.mirror_of is not None}
    with explained(f"'{server.name}'"):
        if logs_cascades(server.acts):
            return []
        asked = [name for name in selected if ".".join(name) not in unused]
        return [one for name in asked for one in cascades.unfollowed(server.acts, selected, name, mirrors)]
