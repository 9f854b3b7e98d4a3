"""What a statement comes to at each shard table: read, tried on a scratch table of each server, and judged.

Nothing is changed but in the database of the trial, which is gone afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pymysql

from migrate.ddl import survey
from migrate.ddl.definition import Definition, read
from migrate.ddl.inverse import statement
from migrate.ddl.levels import Allowance, needs
from migrate.ddl.problem import Problem, at_tables, named
from migrate.ddl.servers import Servers
from migrate.ddl.shards import Shard, Wanted
from migrate.ddl.statement import LogicalStatement
from migrate.ddl.survey import Surroundings
from migrate.ddl.trial import Trial, place_of_trial, tried
from migrate.model.errors import PreflightError
from migrate.model.words import counted
from migrate.mysql import periods
from migrate.mysql.column_defaults import OWN_VALUES, OWN_VALUES_WAY_OUT, own_values
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, explained, number
from migrate.mysql.quoting import printed_table
from migrate.preflight.schema.scratch import name_of
from migrate.publish.schema.ddl import Verb
from migrate.state.ddl import ShardRow
from migrate.state.switch import Side

_NO_RULE = (
    "where each row keeps its place by the rule, as with a wider integer under MOD, name the same shard tables by"
    " --nodes, which asks for no rule; where it does not, a new migration moves the rows"
)
_MISSING = "it is not there, or this account may not see it"
_MAKE = "make it first, or correct the rule; docs/grants.md has the grants"


@dataclass(frozen=True)
class ShardPlan:
    """trial: of a table of the same definition at the same server. witness: see `survey.engine_number`."""

    shard: Shard
    trial: Trial
    around: Surroundings
    witness: str = ""
    in_the_way: tuple[str, ...] = ()

    def undo(self) -> str:
        """The compensating statement; "" where there is none, or nothing to undo."""
        if not self.trial.undo:
            return ""
        named = printed_table(self.shard.database, self.shard.table)
        return compensating(self.trial.undo, named, self.shard.table)


def compensating(clauses: Sequence[str], named: str, table: str, chosen: tuple[str, ...] = ()) -> str:
    """The statement of stored clauses for a table: in names that a server made of its name, that is put in again."""
    bare = table.replace("`", "``")
    return statement(tuple(one.replace("\ue000", bare) for one in clauses), named, chosen)


@dataclass
class Plan:
    """Of a statement over all of its shard tables."""

    logical: LogicalStatement
    wanted: Wanted
    allow_data_loss: bool
    bound: Allowance
    shards: list[ShardPlan] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def loses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for one in self.shards for line in one.trial.loses))

    @property
    def undo_loses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for one in self.shards if one.trial.undo for line in one.trial.undo_loses))

    def refuse(self) -> None:
        """Raises PreflightError with the first problem where there is one."""
        if self.problems:
            first, more = self.problems[0], len(self.problems) - 1
            also = f"; and {counted(more, 'further problem')}, which `migrate ddl plan` lists" if more else ""
            raise PreflightError(f"nothing was changed: {first.what}{also}", hint=first.hint)

    def rows(self) -> list[ShardRow]:
        """What the state keeps of each shard table."""
        return [
            ShardRow(
                *(number_, one.shard.side.value, one.shard.server, one.shard.database, one.shard.table),
                *(one.trial.undo, one.trial.before.text, one.trial.after.text, one.witness),
                *(one.trial.level.algorithm, one.trial.level.lock),
            )
            for number_, one in enumerate(self.shards, start=1)
        ]


def planned(
    servers: Servers, logical: LogicalStatement, wanted: Wanted, bound: Allowance, *, allow_data_loss: bool
) -> Plan:
    """Look at every shard table and try the statement. Raises ServerError, StopError, PreflightError."""
    found: dict[Shard, ShardPlan] = {}
    missing: list[Shard] = []
    plan = Plan(logical, wanted, allow_data_loss, bound, problems=[*wanted.refused])
    for (side, server), shards in groupby(sorted(wanted.shards), key=lambda one: (one.side, one.server)):
        with servers.session(side, server) as session, explained(session.name):
            definitions = {one: read(session, one.database, one.table) for one in shards}
            missing += [one for one, definition in definitions.items() if not definition.text]
            there = {one: definition for one, definition in definitions.items() if definition.text}
            if there:
                found |= _at(session, name_of(servers.name), logical, wanted.key, there)
    plan.shards = [found[one] for one in wanted.shards if one in found]
    plan.problems += at_tables((one, _MISSING, _MAKE) for one in missing)
    plan.problems += _judged(plan)
    return plan


def _at(
    session: Connection, database: str, logical: LogicalStatement, key: Sequence[str], there: dict[Shard, Definition]
) -> dict[Shard, ShardPlan]:
    """The shard tables of one server. key: as `Wanted` has it."""
    trials: dict[tuple[str, tuple[str, str]], Trial] = {}
    charsets = {name: survey.charset(session, name) for name in {one.database for one in there}}
    with place_of_trial(session, database):
        for shard, definition in there.items():
            alike = (definition.text, charsets[shard.database])
            if alike not in trials:
                trials[alike] = tried(session, database, logical, definition, alike[1], key)
    return {
        shard: _surveyed(session, logical, shard, trials[definition.text, charsets[shard.database]])
        for shard, definition in there.items()
    }


def _surveyed(session: Connection, logical: LogicalStatement, shard: Shard, trial: Trial) -> ShardPlan:
    around = survey.look(session, shard.database, shard.table, trial.before)
    witness = ""
    if logical.verb is Verb.TRUNCATE:
        try:
            witness = survey.engine_number(session, shard.database, shard.table)
        except pymysql.MySQLError as error:
            if number(error) not in ACCESS_DENIED:
                raise
    in_the_way = around.in_the_way(trial.touched)
    if logical.is_alter:
        in_the_way += around.keys_in_the_way(trial.before, trial.after)
    return ShardPlan(shard, trial, around, witness, tuple(in_the_way))


def _judged(plan: Plan) -> Iterator[Problem]:
    yield from _refused(plan)
    yield from _of_the_migration(plan)
    yield from at_tables(
        (one.shard, f"{told}, which the statement changes", "drop it first, and make it again afterwards")
        for one in plan.shards
        for told in one.in_the_way
    )
    if plan.loses and not plan.allow_data_loss:
        yield Problem(f"the statement loses {'; '.join(plan.loses)}", plan.wanted.to_lose)
    yield from _heavy(plan)
    if plan.logical.verb is Verb.TRUNCATE:
        yield from at_tables(_untold(one) for one in plan.shards if not one.witness)
    if plan.logical.verb in (Verb.DROP, Verb.TRUNCATE):
        yield from at_tables(
            (one.shard, f"foreign key {one.around.of_others[0]} refers to it", "drop that first")
            for one in plan.shards
            if one.around.of_others
        )


def _untold(one: ShardPlan) -> tuple[Shard, str, str]:
    told = "whether a TRUNCATE was done could not be told after a kill, as"
    if one.trial.before.partitioning:
        return one.shard, f"{told} each partition is a table to InnoDB", "no run empties a table with partitions"
    if not f"{one.shard.database}{one.shard.table}".isascii():
        return one.shard, f"{told} its name is not ASCII", "no run empties a table of such a name"
    why = f"{told} this account may not see InnoDB's number of the table"
    return one.shard, why, "GRANT PROCESS ON *.* to the account"


def _refused(plan: Plan) -> Iterator[Problem]:
    """What the servers said of the statement, once each."""
    for said, shards in _by_text(plan.shards, lambda trial: trial.refused).items():
        yield Problem(
            f"a scratch table as {named(shards)} refuses the statement: {said}",
            "correct what the server names",
        )


def _heavy(plan: Plan) -> Iterator[Problem]:
    heavy = [one for one in plan.shards if not one.trial.refused and not plan.bound.allows(one.trial.level)]
    if heavy:
        level = heavy[0].trial.level
        algorithm, lock = needs(level)
        what = f"takes {level.told}" if level.algorithm else "leaves nobody to choose algorithm and lock"
        yield Problem(
            f"{named([one.shard for one in heavy])} {what} for this statement",
            f"--algorithm {algorithm} --lock {lock} allows it; writers wait for as long as it takes unless it is none",
        )


def _of_the_migration(plan: Plan) -> Iterator[Problem]:
    """What the streams of a migration would stop at."""
    followed = plan.logical.verb is Verb.TRUNCATE and plan.wanted.empties
    if plan.wanted.migrated and not plan.logical.is_alter and not followed:
        verb = plan.logical.verb.value.upper()
        of_rows = plan.wanted.to_empty if plan.logical.verb is Verb.TRUNCATE else ""
        yield Problem(
            f"{verb} TABLE of a table of a migration would stop its streams",
            of_rows or "finish the migration first, or take the table out of it",
        )
    touched = {name[1:-1].replace("``", "`") for one in plan.shards for name in one.trial.touched}
    for name in sorted(name for name in touched if name.lower() in plan.wanted.routing):
        yield Problem(
            f"column {name} says where a row belongs, or is in the key",
            "a table with another key or sharding column is a new migration" if plan.wanted.migrated else _NO_RULE,
        )
    for why, shards in _by_text(plan.shards, lambda trial: trial.reorders).items():
        yield Problem(
            f"{named(shards)}: {why}; a stream would stop at the statement for good",
            "a table with another key, or other unique keys, is a new migration; or finish this one first",
        )
    if plan.wanted.migrated:
        keys = _by_text(plan.shards, lambda trial: periods.exclusive_added(trial.before.text, trial.after.text))
        for key, shards in keys.items():
            yield Problem(
                f"{named(shards)}: {key} {periods.WHY}: a stream would be refused",
                "finish the migration first",
            )
    if plan.wanted.migrated and plan.logical.removes_rows:
        yield Problem(
            f"{plan.logical.removes_rows}: in no log, and a stream would stop at the statement for good",
            "delete the rows by DELETE, which the streams follow; or finish the migration first",
        )
    if plan.wanted.streamed:
        yield from _of_own_values(plan)
    if (policy := plan.wanted.reverse_policy) in ("stop", "apply") and _is_followed(plan.shards, Side.TARGET):
        yield Problem(
            f"the publishers of the reverse stream stop at this statement at the target tables (`ddl: {policy}`)",
            "set `ddl: ignore` for the table, and restart `migrate run` and `migrate --reverse run` (docs/ddl.md)",
        )
        return
    if not plan.wanted.policy or not _is_followed(plan.shards, Side.SOURCE):
        return
    if plan.wanted.policy == "stop":
        yield Problem(
            "the publisher stops at this statement at the source (`ddl: stop`)",
            "set `ddl: ignore` for the table and restart `migrate run` (docs/ddl.md)",
        )
    if plan.wanted.policy == "apply" and any(one.shard.side is Side.TARGET for one in plan.shards):
        yield Problem(
            "the publisher brings this statement to the target tables itself (`ddl: apply`)",
            "--side sources runs it at the source tables alone",
        )
    if len({one.shard.side for one in plan.shards}) > 1:
        yield from _of_messages_on_their_way(plan)


def _of_own_values(plan: Plan) -> Iterator[Problem]:
    """Of rows that are there: no event says which values they have in a new column."""
    found = {
        column
        for one in plan.shards
        for column in own_values(one.trial.before.columns, one.trial.after.columns, plan.logical.renamed)
    }
    for column in sorted(found):
        yield Problem(f"column {column} {OWN_VALUES}", OWN_VALUES_WAY_OUT)


def _of_messages_on_their_way(plan: Plan) -> Iterator[Problem]:
    """Of a statement over both sides, the standby side first: what messages name that are not applied yet."""
    active = plan.wanted.shards[-1].side
    order = f"--side {active}s, then `migrate drain`, then --side {active.other}s"
    if plan.loses:
        yield Problem(
            "a statement that loses data is run at one side after the other, with `migrate drain` between", order
        )
    if plan.logical.renamed:
        named = ", ".join(sorted(plan.logical.renamed.values()))
        yield Problem(
            f"messages that name column {named} would find tables without it: a renamed column is run at one"
            " side after the other, without writers",
            f"stop the writers, `migrate drain`, {order}, start the writers",
        )


def _by_text(shards: Iterable[ShardPlan], said: Callable[[Trial], str]) -> dict[str, list[Shard]]:
    """Shard tables by what their trials say; those that say nothing are left out."""
    told: dict[str, list[Shard]] = {}
    for one in shards:
        if text := said(one.trial):
            told.setdefault(text, []).append(one.shard)
    return told


def _is_followed(shards: Iterable[ShardPlan], side: Side) -> bool:
    """Whether a publisher of this side goes by the table's policy at the statement."""
    trials = (one.trial for one in shards if one.shard.side is side)
    return any(one.lifts or one.before.columns != one.after.columns for one in trials)
