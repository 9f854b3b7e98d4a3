"""Tables whose rows change without the binlog saying so: what came that way since the verification nobody would see."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.cutover.server import Server
from migrate.model.errors import ServerError
from migrate.mysql.errors import explained, unreachable
from migrate.preflight import cascades
from migrate.settings import Cutover
from migrate.target.plan import Plan


def left_out(servers: Sequence[Server], plan: Plan, settings: Cutover) -> list[str]:
    """What keeps a cutover from leaving these servers, for each such table of theirs; nothing of a server that does not
    answer, as that does by itself. Raises ServerError."""
    if settings.cascades == "unused":
        return []
    found: list[str] = []
    for server in servers:
        try:
            there = _silent(server, plan)
        except ServerError as error:
            if not unreachable(error.__cause__):
                raise
            continue
        found += [f"{told}; {cascades.MEND}" for _, told in there]
    return found


def _silent(server: Server, plan: Plan) -> list[tuple[str, str]]:
    with explained(f"'{server.name}'"):
        return cascades.silent(server.acts, [id_[1:] for id_ in plan.tables if id_[0] == server.name])
