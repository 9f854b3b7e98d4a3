"""Names of target databases and tables, where the server does not keep the letters they are written in."""

from __future__ import annotations

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict
from migrate.target.routing import Plan

_SHOWN = 3


def check_target(connection: Connection, plan: Plan, target: str) -> list[Result]:
    """A problem where the server makes lower case of names that the config writes otherwise: its catalog and its log
    have other names then (lower_case_table_names = 1; MySQL manual, "Identifier Case Sensitivity")."""
    if show_variables(connection, "lower_case_table_names").get("lower_case_table_names") != "1":
        return []
    places = {place for one in plan.tables.values() for place in one.places if place.database.target == target}
    tables = sorted({place.table for place in places if place.table != place.table.lower()})
    databases = sorted({name for place in places if (name := place.database.database) != name.lower()})
    found = []
    for names, where in ((tables, "sharding.nodes and the table algorithm"), (databases, "databases[].database")):
        if names:
            shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            found.append(
                Result(
                    "names",
                    target,
                    Verdict.PROBLEM,
                    f"{connection.name} makes lower case of names (lower_case_table_names = 1): {shown}",
                    f"write them in lower case in {where}, as {names[0].lower()}",
                )
            )
    return found
