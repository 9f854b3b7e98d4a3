"""What columns each selected table has at the place in the log that is being read, and what statements make of that.

Statements that leave columns, keys and rows alone pass. One that changes columns, or lets in rows that the targets keep
out, stops, or, with `ddl: ignore`, is followed: what the table is after it goes into the schema history before anything
behind it is published. One that takes or brings rows without row events always stops (docs/decisions/0010).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.model.table import Table
from migrate.publish.schema import ghost
from migrate.publish.schema.alter_effects import keeps_names, leaves_values, takes_rows
from migrate.publish.schema.conditional import effective, renamed
from migrate.publish.schema.ddl import Ddl, Verb, parse
from migrate.publish.schema.definitions import COPY_AGAIN, Definitions, Selected, Versions, full
from migrate.publish.schema.policy import Policy, Step, shown
from migrate.publish.schema.renames import Renames, forgotten
from migrate.publish.schema.row_statements import RowStatements
from migrate.publish.schema.session import UNREADABLE, legible
from migrate.publish.schema.shadow import NotReplayedError, Shape
from migrate.publish.schema.sqltext import Token, tokens
from migrate.publish.schema.statement import Statement, behind_settings, concerned, fires_for
from migrate.publish.schema.token_cursor import Name
from migrate.state.schema_history import Version

log = structlog.get_logger("migrate.publish")


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
        self.passed: Callable[[Step, Sequence[Name], str, int], None] | None = None
        """Told each statement on selected tables that is not stopped at, these, its GTID and its time."""
        self.row_statements = RowStatements(known, self._tokens)
        self._selected = known.selected
        self._policy = Policy(known, mariadb=dialect.mariadb)
        self._renames = Renames(known, self._policy)
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
        selected = {name: Selected(name in follow, renames=name in follow) for name in tables}
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
            ddl = parse(statement.sql, found, statement.database)
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
        if self._dialect.mariadb and statement.session.if_exists:
            ddl = replace(ddl, if_there=True)
        with_rows = [name for name in ddl.names if name in self._selected or self.known.holds(name)]
        about = self._about(ddl)
        step = Step(ddl, statement, since, standby=standby)
        if ddl.verb is Verb.CREATE:
            moved = self._create(step)
        elif ddl.verb is Verb.TRUNCATE and standby:
            moved = self._emptied(step, with_rows)
        elif ddl.verb is Verb.TRUNCATE:
            moved = self._emptied_at_all(step, with_rows)
        elif ddl.verb is Verb.DROP:
            for name in with_rows:
                self._refuse_loss(step, name)
            moved = self._dropped(step)
        elif ddl.verb is Verb.RENAME:
            pairs = list(zip(ddl.names[::2], ddl.names[1::2], strict=True))
            moved = self._renames.after(step, renamed(pairs, self._is_there) if ddl.if_there else pairs, {})
        else:
            moved = self._altered(step)
        news = self.known.move(moved, gtid, at)
        if self.passed is not None and about:
            self.passed(step, about, gtid, at)
        return news

    def _about(self, ddl: Ddl) -> list[Name]:
        """The selected tables whose definition, rows or name a statement may change; not the model of CREATE … LIKE."""
        names = ddl.names[:1] if ddl.verb is Verb.CREATE else ddl.names
        found = (name if name in self._selected else self.known.holds(name) for name in names)
        return list(dict.fromkeys(name for name in found if name is not None))

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
        text = shown(statement)
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
        return self.known.move({name: forgotten(since) for name in lost})

    def _trigger(self, statement: Statement, since: Coordinate) -> Versions:
        """A trigger of a standby side changes rows in the transactions of a stream, which nobody reads as an
        application's, until it is dropped: equal no more (docs/decisions/0034)."""
        there = {name: version for name, version in self.known.versions.items() if not version.gone}
        names = fires_for(statement, there)
        if names:
            log.warning(
                "a trigger was made or dropped", tables=[full(name) for name in names], statement=shown(statement)
            )
        return {name: self._unequal(name, there[name], since) for name in names}

    def _unequal(self, name: Name, version: Version, since: Coordinate) -> Version:
        """As it was, with other values from here on. A table that may take a selected one's place is as it was made,
        with other names, until it does."""
        return replace(version, unequal=True, renames=version.renames and name not in self._selected, since=since)

    def _emptied(self, step: Step, names: Collection[Name]) -> Versions:
        """At a standby side nothing is carried: every row of it may have been written by hand, unless the statement is
        what the stream brought there (`ddl: {truncate: apply}`)."""
        names = [name for name in names if not self.known.brought(step.statement.legible, name)]
        if names:
            told = [full(name) for name in names]
            log.warning("emptied at a standby side", tables=told, statement=shown(step.statement))
        there = {name: self.known.there(name) for name in names}
        return {
            name: replace(self._unequal(name, version, step.since), emptied=True)
            for name, version in there.items()
            if version is not None
        }

    def _emptied_at_all(self, step: Step, names: Collection[Name]) -> Versions:
        """By the policy, once the targets are emptied too; no name that a table has for a while is in a policy."""
        moved: Versions = {}
        for name in names:
            version = self.known.there(name)
            if name not in self._selected or version is None or not self._policy.empties(step, name):
                self._refuse_loss(step, name)
            else:
                moved[name] = self._unequal(name, version, step.since)
        return moved

    def _refuse_loss(self, step: Step, name: Name) -> None:
        """Its rows go without events, if the table is there."""
        if self.known.there(name) is not None or name not in self.known.versions:
            table = self.known.holds(name) or name
            raise step.stop(table, "its rows come or go without events", COPY_AGAIN)

    def _create(self, step: Step) -> Versions:
        made = step.ddl.names[0]
        if step.ddl.if_absent and self.known.there(made) is not None:
            return {}
        if made in self._selected or self.known.holds(made):
            raise step.stop(self.known.holds(made) or made, "it is made anew", COPY_AGAIN)
        model = step.ddl.names[1] if step.ddl.like else None
        follows_model = model is not None and self.known.there(model) is not None
        if not follows_model and not any(ghost.is_ghost(made, name) for name in self._selected):
            return {made: forgotten(step.since)} if made in self.known.versions else {}
        after, why = self._replay(step)
        return {made: after.get(made) or Version(None, unsure=why or "not known", since=step.since)}

    def _dropped(self, step: Step) -> Versions:
        return {name: forgotten(step.since) for name in step.ddl.names if self.known.there(name) is not None}

    def _altered(self, step: Step) -> Versions:
        """ALTER TABLE, and CREATE and DROP INDEX."""
        ddl = step.ddl
        base, others = ddl.names[0], ddl.names[1:]
        target = others[-1] if others else base
        there = self.known.there(base)
        if there is None and ddl.if_there and target != base and self._is_there(target) and not takes_rows(ddl):
            return {}  # or its new name would have been refused
        if there is not None and there.table is not None and ddl.clauses and not ddl.ignores:
            ddl = effective(ddl, there.table.by_name, there.create, mariadb=self._dialect.mariadb)
            step = replace(step, does=ddl)
            if not ddl.clauses:
                log.info("a statement changes nothing", table=full(base), statement=shown(step.statement))
                return {}
        if takes_rows(ddl):
            for name in ddl.names:
                if name in self._selected or self.known.holds(name):
                    self._refuse_loss(step, name)
            return {name: forgotten(step.since) for name in ddl.names if self.known.there(name) is not None}
        if there is None:
            return self._renames.after(step, [(base, target)], {}) if target != base else {}
        after, why = self._replay(step)
        known = after.get(target)
        altered = known if known is not None else Version(None, unsure=why or "not known")
        before = self.known.versions[base]
        renames = not keeps_names(ddl) or bool(altered.unsure) or (base not in self._selected and before.renames)
        altered = replace(altered, holds=self.known.holds(base), since=step.since, renames=renames)
        if target != base:
            return self._renames.after(step, [(base, target)], {base: altered})
        if base not in self._selected and not altered.holds:
            return {base: altered}
        harmless = leaves_values(ddl, same=altered.create == before.create)
        return {base: self._policy.judge(step, altered.holds or base, before, altered, harmless)}

    def _is_there(self, name: Name) -> bool:
        return self.known.there(name) is not None

    def _replay(self, step: Step) -> tuple[Versions, str]:
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
            log.warning("a statement was not replayed", statement=shown(statement), reason=str(error))
            return {}, str(error)
        return {
            name: Version(shape.table, shape.create, unsure=shape.why, since=step.since)
            for name, shape in after.items()
        }, ""

    def _default_collation(self, step: Step) -> str | int | None:
        """What the statement takes where it names no character set, or MySQL's CONVERT TO CHARACTER SET DEFAULT: that
        of the table's database, but where MySQL alters a table of the session's collation_database."""
        database, session = step.ddl.names[0][0], step.statement.session
        if not self._dialect.mariadb and step.ddl.verb is not Verb.CREATE:
            if session.database is not None:
                return session.database
            database = step.statement.database
        return self._dialect.collations.get(database) or session.server
