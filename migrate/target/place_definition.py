"""What a target table must be to hold the rows of its source table as they are."""

from __future__ import annotations

from migrate.model.errors import PreflightError
from migrate.model.table import Table
from migrate.mysql import definition, flavours, full_text, multi_valued
from migrate.mysql.catalog import CatalogTables
from migrate.mysql.key_choice import NoSuchKey
from migrate.target.routing import Place


def refuse_unlike(described: CatalogTables, table: Table, place: Place, kind: str, mend: str) -> Table:
    """A target table must have the source's columns and key, and no unique key that the source's has not. Returns it as
    it is.

    described: of the place's database; kind: the source's flavour; mend: what to do, for the hint. Raises
    PreflightError, StopError for an unknown type; the driver's error.
    """
    connection = described.connection
    try:
        there = described.table(table.source, place.table, table.key)
    except NoSuchKey as error:
        key = ", ".join(table.key)
        raise PreflightError(f"{place} has no key ({key}), which {table.full_name} goes by", hint=mend) from error
    if full_text.NUMBER in there.by_name or any("" in key for key in there.unique_keys):
        statement = definition.show_create(connection, place.database.database, place.table)
        refuse_keys(place, there, statement, "drop {} there")
    if wrong := flavours.unlike(table, there.columns, (kind, connection.flavour)):
        raise PreflightError(f"{place} has other columns than {table.full_name}: {', '.join(wrong)}", hint=mend)
    if stricter := keys_only_of(there, table):
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
    if why:
        mend = f"{mend.format(named)} (the reverse stream needs that of the source, too); or leave the table out"
        raise PreflightError(f"{place}, as {table.full_name}: {why}", hint=mend)


def keys_only_of(one: Table, other: Table) -> str:
    """Unique keys that keep out rows which the other table takes: not those with all columns of a unique key there."""
    theirs = [{*key} for key in (other.key, *other.unique_keys)]
    own = [key for key in (one.key, *one.unique_keys) if not any(columns <= {*key} for columns in theirs)]
    return ", ".join(f"({', '.join(name or 'a part or an expression' for name in key)})" for key in own)
