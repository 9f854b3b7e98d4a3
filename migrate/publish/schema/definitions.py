"""What columns each selected table has at the place in the log that is being read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.model.table import Column, Kind, Table
from migrate.mysql.foreign_keys import ForeignKey, foreign_keys, with_referenced
from migrate.publish.decode.tablemap import TableMap
from migrate.publish.schema.complete import complete
from migrate.publish.schema.key_texts import same_texts
from migrate.publish.schema.shadow import Shape
from migrate.publish.schema.token_cursor import Name
from migrate.sharding.columns import type_text
from migrate.sharding.places import TableRule
from migrate.state.schema_history import Version

Versions = dict[Name, Version]
COPY_AGAIN = "start a new migration and copy again"


@dataclass(frozen=True, slots=True)
class Selected:
    """A table of the config."""

    follows: bool  # ddl: {columns: ignore}
    key: tuple[str, ...] | None = None  # what it began with; it stays
    needs: frozenset[str] = frozenset()  # columns that the sharding rules or the row conditions look at
    rules: tuple[TableRule, ...] = ()  # of the targets, and of the sources where they have one
    forward: bool = True  # of the stream from the sources
    applies: bool = False  # ddl: {columns: apply}, where applications are at the sources
    follows_standby: bool = False  # what comes at a side that applications have left: `follows`, and apply
    renames: bool = False  # ddl: {rename: ignore}
    empties: bool = False  # ddl: {truncate: apply}, where applications are at the sources
    grouped: bool = False  # other tables fill its target tables too


class Definitions:
    """What is known of the selected tables, and of tables that may take their names.

    Args:
        selected: the tables of the config.
        versions: what is known at the place where reading begins.
        charsets: character set by collation id.
        current: a selected table as it is at the source now; None where nobody can tell.
        store: keeps versions, before anything behind their coordinate is published.
        made: the CREATE TABLE statement that a table's target tables were made by; "" where it is not known.
        collations: by id, as the source names them; None where nobody can tell.
    """

    def __init__(
        self,
        selected: Mapping[Name, Selected],
        versions: Mapping[Name, Version],
        charsets: Mapping[int, str],
        current: Callable[[Name], Shape] | None = None,
        store: Callable[[Versions], None] = lambda _versions: None,
        made: Callable[[Name], str] = lambda _name: "",
        collations: Mapping[int, str] | None = None,
    ) -> None:
        self.selected = selected
        self.versions = {
            name: version if version.holds is None or version.holds in selected else replace(version, holds=None)
            for name, version in versions.items()
        }
        """Of one that was taken out of the config nothing is followed, whatever name it has."""
        self._made, self._first = made, {name: version.create for name, version in versions.items()}
        self._charsets = charsets
        self._collations = collations
        self._current = current
        self._store = store
        self.tables: dict[Name, Table] = {}
        self._children: dict[Name, list[tuple[Name, ForeignKey]]] | None = None
        self._now: dict[Name, Sequence[ForeignKey]] = {}
        self.applied: Collection[Coordinate] = frozenset()
        """Where statements stand that the targets have got (`ddl: apply`)."""
        self.joins: Callable[[Name, Coordinate, str], int] = lambda _name, _since, _brings: 0
        """The number of the run by which the targets have what a statement on a table of a group brings, as `brought`
        of `group_columns` gives it; 0 where they have not."""
        self.brought: Callable[[str, Name], bool] = lambda _sql, _name: False
        """Whether a statement on a table at a target is one that a stream brought there (`ddl: apply`)."""
        self.watched: set[Name] = set()
        """Tables whose rows the reader must ask `met` about."""
        self._arrange()

    def _arrange(self) -> None:
        self.tables.clear()
        self._children = None
        self._now = {}
        self.watched = {name for name, version in self.versions.items() if version.holds}
        for name in self.selected:
            version = self.versions.get(name)
            if version is None or version.table is None or version.unsure or version.gone:
                self.watched.add(name)
            else:
                self.tables[name] = version.table

    def children(self, parent: Name) -> Sequence[tuple[Name, ForeignKey]]:
        """Selected tables with a foreign key to this one by which the server changes rows by itself."""
        if self._children is None:
            self._children = {}
            for name in self.selected:
                version = self.there(name)
                known = version.create if version is not None else ""
                for key in foreign_keys(known, name[0]) if known else self.foreign_keys_now(name):
                    if key.cascades:
                        self._children.setdefault(key.parent, []).append((name, key))
        return self._children.get(parent, ())

    def made(self, name: Name) -> str:
        """What the target tables of a table were made by; "" where it is not known."""
        return self._made(name) or self._first.get(name, "")

    def foreign_keys_now(self, name: Name) -> Sequence[ForeignKey]:
        """Those that a table has at the source now: where the history does not tell, or by other names."""
        if name not in self._now:
            shape = self._current(name) if self._current is not None else None
            self._now[name] = foreign_keys(shape.create, name[0]) if shape is not None else ()
        return self._now[name]

    # -- rows

    def complete(self, logged: TableMap) -> TableMap:
        """The table map with all that the log leaves out. Raises StopError when it contradicts the definition."""
        return complete(logged, self.tables[(logged.database, logged.table)], self._charsets, self._collations)

    def met(self, logged: TableMap) -> None:
        """Rows of a watched table follow. Afterwards its definition is in `tables`, or StopError was raised."""
        name = (logged.database, logged.table)
        version = self.versions.get(name)
        if version is not None and version.holds:
            raise StopError(
                f"rows of {full(version.holds)} change while it is named {full(name)}",
                hint=f"such changes are not published: {COPY_AGAIN}",
                code=Code.DEFINITION,
            )
        why = "it is not in the schema history" if version is None else version.unsure or "another name was given to it"
        where = f"what columns {full(name)} has here is not known ({why})"
        if any(column.name is None for column in logged.columns):
            raise StopError(
                f"{where}, and the log does not name them",
                hint="keep the state on a server of the source's kind and version, or set binlog_row_metadata = 'FULL'"
                f" before altering tables; now, {COPY_AGAIN}",
                code=Code.DEFINITION,
            )
        self._settle(name, logged, version, where)

    def _settle(self, name: Name, logged: TableMap, version: Version | None, where: str) -> None:
        """Take the definition that the source has now, if the log's own columns say that it is the one."""
        shape = self._current(name) if self._current else None
        if shape is None or shape.table is None:
            raise StopError(f"{where}, and the source cannot tell", hint=COPY_AGAIN, code=Code.DEFINITION)
        try:
            complete(logged, shape.table, self._charsets, self._collations)
        except StopError as error:
            raise StopError(
                f"{where}, and it changed again since: {error.message}", hint=COPY_AGAIN, code=error.code
            ) from error
        before = version.table if version else None
        if before is not None:
            self.keep_order(name, before, shape.table, "a statement")
        before_it = version or Version(None)
        self.move({name: replace(before_it, table=shape.table, create=shape.create, gone=False, unsure="")})

    # -- changes

    def keep_order(self, name: Name, before: Table, after: Table, statement: str) -> None:
        """Raise StopError when rows would travel or be placed otherwise: that is settled for good."""
        why = other_key(before, after) or _other_places(self.selected[name], before, after)
        if why:
            raise StopError(
                f"a statement may change {full(name)}: {statement} ({why})",
                hint=f"undo it at the source, or {COPY_AGAIN}",
                code=Code.DEFINITION,
            )

    def holds(self, name: Name) -> Name | None:
        version = self.versions.get(name)
        return version.holds if version else None

    def apart_from(self, databases: Collection[str] | None) -> bool:
        """Whether what changes tables of these databases only, if they are known, changes none that is known here."""
        ours = {name[0].lower() for name in (*self.selected, *self.versions)}
        return bool(databases) and ours.isdisjoint(name.lower() for name in databases or ())

    def there(self, name: Name) -> Version | None:
        """What is known of a table that exists."""
        version = self.versions.get(name)
        return version if version is not None and not version.gone else None

    def move(self, moved: Versions, gtid: str = "", at: int = 0) -> bool:
        """Whether this is news; it is stored then. gtid, at: of the statement, as `Version` has them."""
        news = {name: version for name, version in moved.items() if not self._has(name, version)}
        moved = {
            name: replace(version, gtid=gtid or version.gtid, at=at or version.at) for name, version in news.items()
        }
        if not moved:
            return False
        moved |= self._with_new_names(moved)
        self._store(moved)
        self.versions |= {name: replace(version, unequal=False, emptied=False) for name, version in moved.items()}
        self._arrange()
        return True

    def _with_new_names(self, moved: Versions) -> Versions:
        """Tables that refer to columns which a statement gave other names: it says nothing of them, and who looks for
        their rows would find no such column. By what they are at the source now; as they were where it cannot tell."""
        found: dict[Name, Version] = {}
        renamed = {name: one.table.by_name.keys() for name, one in moved.items() if one.renames and one.table}
        for child in self.selected if renamed else ():
            version = moved.get(child) or self.there(child)
            create = version.create if version is not None else ""
            for key in foreign_keys(create, child[0]) if create else ():
                names = renamed.get(key.parent)
                now = [one for one in self._read_now(child) if one.name == key.name] if names is not None else []
                named = now[0].by_names_of(names) if names is not None and now else None
                if named is not None:
                    create = with_referenced(create, key.name, named.referenced)
            if version is not None and create != version.create:
                since = next(one.since for one in moved.values())
                same = version if child in moved else replace(version, since=since, renames=False)
                found[child] = replace(same, create=create)
        return found

    def _read_now(self, name: Name) -> Sequence[ForeignKey]:
        self._now.pop(name, None)
        return self.foreign_keys_now(name)

    def _has(self, name: Name, version: Version) -> bool:
        before = self.versions.get(name)
        if before is None or ((version.renames or version.unequal) and before.since != version.since):
            return False
        of_now = replace(before, since=version.since, gtid=version.gtid, at=version.at, unequal=version.unequal)
        return of_now == version


def other_key(before: Table, after: Table) -> str:
    """Why changes of one row would no longer come in their order; "" where they do."""
    if before.key != after.key or before.one_partition != after.one_partition:
        return "its key, or which keys are unique, decides the order of its changes"
    for old, new in zip(before.key_columns, after.key_columns, strict=True):
        if not same_texts(old, new):
            return (
                f"column {old.name} of its key would be {new.shown_type} instead of {old.shown_type}: its values would"
                " be written another way, and by these the changes of a row find each other"
            )
    return ""


def _other_places(selected: Selected, before: Table, after: Table) -> str:
    """Why rows would belong elsewhere; "" where they stay."""
    routed = {column for rule in selected.rules for column in rule.columns}
    for column in sorted(selected.needs):
        old, new = before.by_name.get(column), after.by_name.get(column)
        if new is None or old is None or old.kind is not new.kind or (_listed(new) and old.type != new.type):
            return f"its sharding or its row conditions look at column {column}"
        numbers = new.kind is Kind.DECIMAL and column not in routed  # conditions compare them by value
        if not numbers and not same_texts(old, new):
            return f"its sharding or its row conditions look at column {column}, whose values are written another way"
        rules = [rule for rule in selected.rules if column in rule.columns]
        if not all(rule.routes_alike(column, type_text(new)) for rule in rules):
            return f"its sharding looks at column {column}, and as {new.shown_type} it has another Java type"
    return ""


def _listed(column: Column) -> bool:
    """Whether its values are numbers whose meaning its type lists."""
    return column.kind in (Kind.ENUM, Kind.SET)


def full(name: Name) -> str:
    return f"{name[0]}.{name[1]}"
