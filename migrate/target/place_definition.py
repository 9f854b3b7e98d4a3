"""What a target table must be to hold the rows of its source table as they are."""

from __future__ import annotations

from collections.abc import Callable

from migrate.model.errors import PreflightError
from migrate.model.table import Table
from migrate.mysql import definition, flavours, full_text, key_parts, multi_valued, periods
from migrate.mysql.catalog import CatalogTables
from migrate.mysql.key_choice import NoSuchKey
from migrate.target.routing import Place


def refuse_unlike(
    described: CatalogTables,
    table: Table,
    place: Place,
    kind: str,
    mend: str,
    create: Callable[[], str] = lambda: "",
) -> Table:
    """A target table must have the source's columns and key, and no unique key that the source's has not. Returns it as
    it is.

    described: of the place's database; kind: the source's flavour; mend: what to do, for the hint; create: the source
    table's definition, where it is known: it is asked for where keys are on prefixes or expressions. Raises
    PreflightError, StopError for an unknown type; the driver's error.
    """
    connection = described.connection
    try:
        there = described.table(table.source, place.table, table.key)
    except NoSuchKey as error:
        key = ", ".join(table.key)
        raise PreflightError(f"{place} has no key ({key}), which {table.full_name} goes by", hint=mend) from error
    statement, in_parts = "", any("" in key for key in there.unique_keys)
    excludes = connection.flavour == flavours.MARIADB and periods.may_be_exclusive(there)
    if full_text.NUMBER in there.by_name or in_parts or excludes:
        statement = definition.show_create(connection, place.database.database, place.table)
        refuse_keys(place, there, statement, "drop {} there")
    if wrong := flavours.unlike(table, there.columns, (kind, connection.flavour)):
        raise PreflightError(f"{place} has other columns than {table.full_name}: {', '.join(wrong)}", hint=mend)
    stricter = keys_only_of(there, table)
    if not stricter and in_parts and (wanted := create()):
        stricter = ", ".join(f"({listed})" for listed in key_parts.only_of(statement, wanted))
    if stricter:
        told = f"{place} has unique keys that {table.full_name} does not have: {stricter}"
        raise PreflightError(f"{told}; it would refuse rows that the source takes", hint=mend)
    return there


def refuse_keys(place: Place, table: Table, statement: str, mend: str) -> None:
    """Raise PreflightError for keys that rows cannot be written under in another order than the application's.

    statement: SHOW CREATE TABLE's; mend: with {} for their names.
    """
    why = ""
    if named := ", ".join(full_text.numbered_by_rows(table, statement)):
        why = f"with full-text keys ({named}) InnoDB takes rows by the order of their {full_text.NUMBER} only, in which"
        why += " the copy and the stream do not come"
    elif named := ", ".join(multi_valued.unique_by_elements(statement)):
        why = f"which row holds a value of its unique keys on the elements of arrays ({named}) cannot be asked"
    elif named := ", ".join(periods.exclusive(statement)):
        why = f"{named} {periods.WHY}"
    if why:
        mend = f"{mend.format(named)} (the reverse stream needs that of the source, too); or leave the table out"
        raise PreflightError(f"{place}, as {table.full_name}: {why}", hint=mend)


def refuse_periods(place: Place, table: Table, statement: str) -> None:
    """Raise PreflightError for periods of application time, which MySQL does not have.

    statement: SHOW CREATE TABLE's of MariaDB.
    """
    if found := periods.periods(statement):
        raise PreflightError(
            f"{place}, as {table.full_name}: MySQL has no application-time periods ({', '.join(found)})",
            hint="create its target tables by hand without them, with a CHECK that the first column is below the"
            " second, which `migrate init` takes",
        )


def refuse_order(place: Place, table: Table, kind: str) -> None:
    """Raise PreflightError for a key whose ranges leave rows out: in a NO PAD collation MariaDB's index has CHAR values
    with spaces behind them, so a tab after `a` comes before `a` there, and behind it where values are compared. kind:
    the source's flavour."""
    apart = [
        column.name
        for column in table.key_columns
        if column.type.startswith("char(") and "_nopad_" in (column.collation or "")
    ]
    if kind == flavours.MARIADB and apart:
        raise PreflightError(
            f"{place}, as {table.full_name}: its key is on CHAR in a NO PAD collation ({', '.join(apart)}), which"
            f" {kind}'s index orders otherwise than it compares it: ranges of the key leave rows out",
            hint="make it VARCHAR at the source, or give it a collation with padding; or leave the table out",
        )


def keys_only_of(one: Table, other: Table) -> str:
    """Unique keys that keep out rows which the other table takes: not those with all columns of a unique key there."""
    theirs = [{*key} for key in (other.key, *other.unique_keys)]
    own = [key for key in (one.key, *one.unique_keys) if not any(columns <= {*key} for columns in theirs)]
    return ", ".join(f"({', '.join(name or 'a part or an expression' for name in key)})" for key in own)
