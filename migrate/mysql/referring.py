"""Foreign keys that change rows of other tables with a row of one: what its deletion, or its update, takes along.

MySQL manual, "The INFORMATION_SCHEMA REFERENTIAL_CONSTRAINTS Table" and "INNODB_FOREIGN"; MariaDB documentation,
"INNODB_SYS_FOREIGN". MariaDB shows constraints to who has another privilege than SELECT on the whole database.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pymysql

from migrate.model.errors import Code, StopError
from migrate.mysql.capabilities import innodb_foreign
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, number

_SEEN = (
    "SELECT one.CONSTRAINT_SCHEMA, one.TABLE_NAME, one.CONSTRAINT_NAME, one.DELETE_RULE, one.UPDATE_RULE,"
    " many.COLUMN_NAME, many.REFERENCED_COLUMN_NAME"
    " FROM information_schema.REFERENTIAL_CONSTRAINTS one JOIN information_schema.KEY_COLUMN_USAGE many"
    " ON many.CONSTRAINT_SCHEMA = one.CONSTRAINT_SCHEMA AND many.CONSTRAINT_NAME = one.CONSTRAINT_NAME"
    " AND many.TABLE_NAME = one.TABLE_NAME WHERE one.UNIQUE_CONSTRAINT_SCHEMA = %s AND one.REFERENCED_TABLE_NAME = %s"
    " ORDER BY 1, 2, 3, many.ORDINAL_POSITION"
)
_KEPT = ("RESTRICT", "NO ACTION")
_ACTING = 15
"""Bits of InnoDB's TYPE: a delete or an update cascades, or sets NULL."""
_ENCODED = re.compile("@([0-9a-f]{4})")


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """child: database and table; columns: the child's, each with the one that it refers to."""

    child: tuple[str, str]
    name: str
    on_delete: bool
    on_update: bool
    columns: tuple[str, ...]
    referenced: tuple[str, ...]


def referring(connection: Connection, database: str, table: str) -> list[ForeignKey]:
    """Those that act on rows of other tables when one of this table goes or changes, in every database.

    Raises: StopError where there is one that the account may not see; the driver's error.
    """
    found: dict[tuple[str, str, str], list[tuple[str, ...]]] = {}
    for row in connection.query(_SEEN, [database, table]):
        schema, child, name, *rest = map(str, row)
        found.setdefault((schema, child, name), []).append(tuple(rest))
    seen = [
        ForeignKey(
            (schema, child),
            name,
            rows[0][0] not in _KEPT,
            rows[0][1] not in _KEPT,
            tuple(column for *_, column, _ in rows),
            tuple(column for *_, column in rows),
        )
        for (schema, child, name), rows in found.items()
    ]
    acting = [one for one in seen if one.on_delete or one.on_update]
    children = {".".join(one.child).lower() for one in acting}
    if hidden := sorted(_acting(connection, database, table) - children):
        raise StopError(
            f"{connection.name}: rows of {hidden[0]} go or change with rows of {database}.{table} by a foreign key, and"
            " this account may not see that table",
            hint=f"give it SELECT and REFERENCES on database {hidden[0].split('.', 1)[0]}, then try again",
            code=Code.DEFINITION,
        )
    return acting


def _acting(connection: Connection, database: str, table: str) -> set[str]:
    """Tables whose foreign keys act, by InnoDB's own dictionary, which shows all of them; none where the account may
    not read it (PROCESS)."""
    name = innodb_foreign(connection)
    try:
        rows = connection.query(f"SELECT FOR_NAME, REF_NAME FROM information_schema.{name} WHERE TYPE & {_ACTING}")
    except pymysql.MySQLError as error:
        if number(error) not in ACCESS_DENIED | {1109}:
            raise
        return set()
    wanted = f"{database}/{table}".lower()
    return {_name(child).replace("/", ".", 1) for child, parent in rows if _name(parent) == wanted}


def _name(stored: object) -> str:
    """MariaDB keeps names as those of files (its documentation, "Identifier to File Name Mapping")."""
    return _ENCODED.sub(lambda found: chr(int(found[1], 16)), str(stored)).lower()
