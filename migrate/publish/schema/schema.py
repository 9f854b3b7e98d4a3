"""What columns each selected table has at the place in the log that is being read, and what statements make of that.

Statements that leave columns, keys and rows alone pass. One that changes columns, or lets in rows that the targets keep
out, stops, or, with `ddl: ignore`, is followed: what the table is after it goes into the schema history before anything
behind it is published. One that takes or brings rows without row events always stops (docs/decisions/0010).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.model.table import Table
from migrate.publish.schema import ddl as ddls
from migrate.publish.schema import ghost, row_limits
from migrate.publish.schema.conditional import effective, renamed
from migrate.publish.schema.ddl import Ddl, Name, Verb
from migrate.publish.schema.definitions import COPY_AGAIN, Definitions, Selected, Versions, full
from migrate.publish.schema.row_statements import RowStatements
from migrate.publish.schema.session import UNREADABLE, legible
from migrate.publish.schema.shadow import NotReplayedError, Shape
from migrate.publish.schema.sqltext import Token, tokens
from migrate.publish.schema.statement import Statement, behind_settings, concerned, fires_for
from migrate.state.schema_history import Version

log = structlog.get_logger("migrate.publish")
_FOLLOW = (
    "make its target tables the same by hand, set tables[].ddl: ignore and start again; or undo it at the source,"
    f" {COPY_AGAIN}"
)
_FOLLOW_STANDBY = (
    "applications are at the other side, and nothing of this one is carried: make the other side's tables the same, set"
    " tables[].ddl: ignore and start again (docs/operations.md#altering-a-table); or undo it here,"
    f" {COPY_AGAIN}"
)


class Replays(Protocol):
    """See `Shadow.after`."""

    def after(
        self,
        ddl: Ddl,
        before: Mapping[Name, Shape],
        keys: Mapping[Name, tuple[str, ...] | None],
        statement: Statement,
        collation: str | int | None = None,
    ) -> dict[Name, Shape]: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the source reads statements."""

    mariadb: bool
    version: int = 0  # as in `/*!NNNNN`
    lower_case: bool = False  # lower_case_table_names is not 0
    collations: Mapping[str, str] = field(default_factory=dict)  # by database, what its new tables get


class Schema:
    """Moves the definitions on by the statements of the log.

    Args: what is known; how the source reads statements; what tells what a statement makes of tables (None: nothing).
    """

    def __init__(
        self,
        known: Definitions,
        dialect: Dialect,
        replays: Replays | None = None,
    ) -> None:
        self.known = known
        self.row_statements = RowStatements(known, self._tokens)
        self._selected = known.selected
        self._dialect = dialect
        self._replays = replays

    @classmethod
    def fixed(
        cls,
        tables: Mapping[Name, Table],
        charsets: Mapping[int, str],
        *,
        mariadb: bool,
        follow: Collection[Name] = (),
    ) -> Schema:
        """Of definitions that no statement can be replayed on."""
        selected = {name: Selected(name in follow) for name in tables}
        versions = {name: Version(table) for name, table in tables.items()}
        return cls(Definitions(selected, versions, charsets), Dialect(mariadb, 999999))

    def statement(
        self, statement: Statement, since: Coordinate, gtid: str = "", at: int = 0, *, standby: bool = False
    ) -> bool:
        """Whether the statement changed what is known. Raises StopError where the policy or doubt says so.

        at: seconds since 1970, by its header. standby: the side's role there.
        """
        if statement.is_part:
            return False
        try:
            found = self._tokens(statement)
            ddl = ddls.parse(statement.sql, found, statement.database)
        except ValueError as error:
            return self._doubt(statement, f"it cannot be read: {error}", since)
        if ddl is None or any(UNREADABLE in legible("".join(name), exact=statement.exact) for name in ddl.names):
            behind = behind_settings(statement, found)
            if standby and (made := self._trigger(behind, since)):
                return self.known.move(made, gtid, at)
            return self._doubt(behind, "", since)
        if not ddl.tables:
            return False
        ddl = self._resolved(ddl)
        with_rows = [name for name in ddl.names if name in self._selected or self.known.holds(name)]
        step = _Step(ddl, statement, since, standby=standby)
        if ddl.verb is Verb.CREATE:
            moved = self._create(step)
        elif ddl.verb is Verb.TRUNCATE and standby:
            moved = self._emptied(step, with_rows)
        elif ddl.verb in (Verb.DROP, Verb.TRUNCATE):
            for name in with_rows:
                self._refuse_loss(step, name)
            moved = self._dropped(step) if ddl.verb is Verb.DROP else {}
        elif ddl.verb is Verb.RENAME:
            pairs = list(zip(ddl.names[::2], ddl.names[1::2], strict=True))
            moved = self._renamed(step, renamed(pairs, self._is_there) if ddl.if_there else pairs, {})
        else:
            moved = self._altered(step)
        return self.known.move(moved, gtid, at)

    def _tokens(self, statement: Statement) -> list[Token]:
        return tokens(statement.sql, statement.session.mode, self._dialect.version, mariadb=self._dialect.mariadb)

    def _resolved(self, ddl: Ddl) -> Ddl:
        """With names as they are known here, where the server does not tell capitals apart."""
        if not self._dialect.lower_case:
            return ddl
        known = {(one.lower(), two.lower()): (one, two) for one, two in [*self._selected, *self.known.versions]}

        def resolve(name: Name) -> Name:
            folded = (name[0].lower(), name[1].lower())
            return known.get(folded, folded)

        return replace(ddl, tables=tuple(replace(one, name=resolve(one.name)) for one in ddl.tables))

    def _doubt(self, statement: Statement, why: str, since: Coordinate) -> bool:
        """A statement that is not understood concerns every table whose name it may contain."""
        text = _text(statement)
        if (found := concerned(statement, self._selected)) is not None:
            because = f" ({why})" if why else ""
            raise StopError(
                f"a statement may change {full(found)}: {text}{because}",
                hint=f"what it does is not known: {COPY_AGAIN}",
                code=Code.STATEMENT,
            )
        others = [
            name for name, version in self.known.versions.items() if name not in self._selected and not version.gone
        ]
        lost = {name for name in others if concerned(statement, [name]) is not None}
        for name in lost:
            if holds := self.known.holds(name):
                raise StopError(
                    f"a statement may change {full(holds)}, which is named {full(name)} now: {text}",
                    hint=COPY_AGAIN,
                    code=Code.STATEMENT,
                )
        return self.known.move({name: _forgotten(since) for name in lost})

    def _trigger(self, statement: Statement, since: Coordinate) -> Versions:
        """A trigger of a standby side changes rows in the transactions of a stream, which nobody reads as an
        application's, until it is dropped: equal no more (docs/decisions/0034)."""
        there = {name: version for name, version in self.known.versions.items() if not version.gone}
        names = fires_for(statement, there)
        if names:
            log.warning(
                "a trigger was made or dropped", tables=[full(name) for name in names], statement=_text(statement)
            )
        return {name: self._unequal(name, there[name], since) for name in names}

    def _unequal(self, name: Name, version: Version, since: Coordinate) -> Version:
        """As it was, with other values from here on. A table that may take a selected one's place is as it was made,
        with other names, until it does."""
        return replace(version, unequal=True, renames=version.renames and name not in self._selected, since=since)

    def _emptied(self, step: _Step, names: Collection[Name]) -> Versions:
        """At a standby side nothing is carried: every row of it may have been written by hand."""
        if names:
            told = [full(name) for name in names]
            log.warning("emptied at a standby side", tables=told, statement=_text(step.statement))
        there = {name: self.known.there(name) for name in names}
        return {
            name: replace(self._unequal(name, version, step.since), emptied=True)
            for name, version in there.items()
            if version is not None
        }

    def _refuse_loss(self, step: _Step, name: Name) -> None:
        """Its rows go without events, if the table is there."""
        if self.known.there(name) is not None or name not in self.known.versions:
            table = self.known.holds(name) or name
            raise step.stop(table, "its rows come or go without events", COPY_AGAIN)

    def _create(self, step: _Step) -> Versions:
        made = step.ddl.names[0]
        if step.ddl.if_absent and self.known.there(made) is not None:
            return {}
        if made in self._selected or self.known.holds(made):
            raise step.stop(self.known.holds(made) or made, "it is made anew", COPY_AGAIN)
        model = step.ddl.names[1] if step.ddl.like else None
        follows_model = model is not None and self.known.there(model) is not None
        if not follows_model and not any(ghost.is_ghost(made, name) for name in self._selected):
            return {made: _forgotten(step.since)} if made in self.known.versions else {}
        after, why = self._replay(step)
        return {made: after.get(made) or Version(None, unsure=why or "not known", since=step.since)}

    def _dropped(self, step: _Step) -> Versions:
        return {name: _forgotten(step.since) for name in step.ddl.names if self.known.there(name) is not None}

    def _altered(self, step: _Step) -> Versions:
        """ALTER TABLE, and CREATE and DROP INDEX."""
        ddl = step.ddl
        base, others = ddl.names[0], ddl.names[1:]
        target = others[-1] if others else base
        there = self.known.there(base)
        if there is None and ddl.if_there and target != base and self._is_there(target) and not ddls.takes_rows(ddl):
            return {}  # or its new name would have been refused
        if there is not None and there.table is not None and ddl.clauses and not ddl.ignores:
            ddl = effective(ddl, there.table.by_name, there.create, mariadb=self._dialect.mariadb)
            step = replace(step, does=ddl)
            if not ddl.clauses:
                log.info("a statement changes nothing", table=full(base), statement=_text(step.statement))
                return {}
        if ddls.takes_rows(ddl):
            for name in ddl.names:
                if name in self._selected or self.known.holds(name):
                    self._refuse_loss(step, name)
            return {name: _forgotten(step.since) for name in ddl.names if self.known.there(name) is not None}
        if there is None:
            return self._renamed(step, [(base, target)], {}) if target != base else {}
        after, why = self._replay(step)
        known = after.get(target)
        altered = known if known is not None else Version(None, unsure=why or "not known")
        before = self.known.versions[base]
        renames = not ddls.keeps_names(ddl) or bool(altered.unsure) or (base not in self._selected and before.renames)
        altered = replace(altered, holds=self.known.holds(base), since=step.since, renames=renames)
        if target != base:
            return self._renamed(step, [(base, target)], {base: altered})
        if base not in self._selected and not altered.holds:
            return {base: altered}
        return {base: self._judge(step, altered.holds or base, before, altered, ddls.leaves_values(ddl))}

    def _is_there(self, name: Name) -> bool:
        return self.known.there(name) is not None

    def _replay(self, step: _Step) -> tuple[Versions, str]:
        """What the statement makes of the tables it names; or why that is not known."""
        before = {}
        for name in step.ddl.names:
            version = self.known.there(name)
            if version is not None and not version.create:
                return {}, version.unsure or "how it was made is not in the schema history"
            if version is not None:
                before[name] = Shape(version.create, version.table)
        if self._replays is None:
            return {}, "there is no server to try it on"
        keys = {name: self._selected[name].key for name in step.ddl.names if name in self._selected}
        statement = step.statement
        try:
            after = self._replays.after(step.ddl, before, keys, statement, self._default_collation(step))
        except NotReplayedError as error:
            log.warning("a statement was not replayed", statement=_text(statement), reason=str(error))
            return {}, str(error)
        return {
            name: Version(shape.table, shape.create, unsure=shape.why, since=step.since)
            for name, shape in after.items()
        }, ""

    def _default_collation(self, step: _Step) -> str | int | None:
        """What the statement takes where it names no character set, or MySQL's CONVERT TO CHARACTER SET DEFAULT: that
        of the table's database, but where MySQL alters a table of the session's collation_database."""
        database, session = step.ddl.names[0][0], step.statement.session
        if not self._dialect.mariadb and step.ddl.verb is not Verb.CREATE:
            if session.database is not None:
                return session.database
            database = step.statement.database
        return self._dialect.collations.get(database) or session.server

    # -- names

    def _renamed(self, step: _Step, pairs: list[tuple[Name, Name]], altered: Versions) -> Versions:
        """RENAME: what each name stands for afterwards. `altered`: what the statement did to tables before."""
        origin: dict[Name, Name | None] = {}
        for old, new in pairs:
            origin[new], origin[old] = origin.get(old, old), None
        moved: Versions = {}
        for name, came_from in origin.items():
            if came_from == name and name not in altered:
                continue
            if name in self._selected:
                moved[name] = self._under_a_selected_name(step, name, came_from, origin, altered)
            elif came_from is None:
                if self.known.there(name) is not None:
                    moved[name] = _forgotten(step.since)
            elif (version := altered.get(came_from) or self.known.there(came_from)) is not None:
                moved[name] = self._under_another_name(step, name, came_from, origin, version)
            elif self.known.there(name) is not None:
                moved[name] = _forgotten(step.since)
        return moved

    def _under_another_name(
        self, step: _Step, name: Name, came_from: Name, origin: Mapping[Name, Name | None], version: Version
    ) -> Version:
        if came_from not in self._selected:
            return replace(version, table=_named(version.table, name), since=step.since)
        successor = origin.get(came_from)
        if successor is not None and ghost.is_ghost(successor, came_from):
            return _forgotten(step.since)  # the old table of gh-ost or pt-online-schema-change
        return replace(version, table=_named(version.table, name), holds=came_from, since=step.since)

    def _under_a_selected_name(
        self,
        step: _Step,
        name: Name,
        came_from: Name | None,
        origin: Mapping[Name, Name | None],
        altered: Versions,
    ) -> Version:
        before = self.known.versions.get(name) or Version(None, unsure="it is not in the schema history")
        if came_from is None:
            self._policy(step, name, "it gets another name")
            return Version(before.table, gone=True, since=step.since)
        version = altered.get(came_from) or self.known.there(came_from)
        returns = self.known.holds(came_from) == name or came_from == name
        swapped = ghost.is_ghost(came_from, name) and name in origin.values()
        if not returns and not swapped:
            raise step.stop(name, f"{full(came_from)} takes its place, with other rows", COPY_AGAIN)
        if version is None:
            version = Version(None, unsure=f"{full(came_from)} was made before this service looked")
        after = replace(version, table=_named(version.table, name), holds=None, since=step.since)
        after = self._judge(step, name, before, after, not altered or ddls.leaves_values(step.does or step.ddl))
        # Nobody says that all rows were copied into it: a purge is done the same way.
        return after if returns else replace(after, unequal=True)

    # -- judging

    def _judge(self, step: _Step, name: Name, before: Version, after: Version, harmless: bool) -> Version:
        """What the history takes for a selected table. Raises StopError."""
        if after.table is None and after.create:
            raise step.stop(name, after.unsure, COPY_AGAIN)
        if after.table is None:
            self._policy(step, name, f"what it makes of the table is not known: {after.unsure}")
            return replace(after, table=before.table, unequal=True)
        if before.table is not None:
            self.known.keep_order(name, before.table, after.table, _text(step.statement))
        same = before.table is not None and replace(after.table, database=name[0], name=name[1]) == replace(
            before.table, database=name[0], name=name[1]
        )
        lifted = row_limits.lifted(before.create, after.create, self.known.made(name), mariadb=self._dialect.mariadb)
        keeps = same and harmless and _generated(before.create) == _generated(after.create)
        if keeps and not lifted:
            log.info("a statement changes no columns", table=full(name), statement=_text(step.statement))
            return after
        self._policy(step, name, lifted)
        return replace(after, unequal=not keeps)

    def _policy(self, step: _Step, name: Name, why: str) -> None:
        if not self._selected[name].follows:
            raise step.stop(name, why, _FOLLOW_STANDBY if step.standby else _FOLLOW)
        log.warning("statement followed, as configured", table=full(name), statement=_text(step.statement), reason=why)


@dataclass(frozen=True, slots=True)
class _Step:
    ddl: Ddl
    statement: Statement
    since: Coordinate
    does: Ddl | None = None  # without the clauses that have no effect
    standby: bool = False  # applications are not at the side that is read

    def stop(self, name: Name, why: str, hint: str) -> StopError:
        because = f" ({why})" if why else ""
        return StopError(
            f"a statement may change {full(name)}: {_text(self.statement)}{because}", hint=hint, code=Code.STATEMENT
        )


def _forgotten(since: Coordinate) -> Version:
    return Version(None, gone=True, since=since)


def _named(table: Table | None, name: Name) -> Table | None:
    return table if table is None else replace(table, database=name[0], name=name[1])


def _generated(create: str) -> list[str]:
    """The lines of generated columns: another expression changes values without events."""
    return [line.strip().rstrip(",") for line in create.splitlines() if " GENERATED ALWAYS AS " in line]


def _text(statement: Statement) -> str:
    return " ".join(statement.legible.split())[:200]
