"""The tables to move: names and patterns, and what is chosen for each."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from migrate.model.rowfilter import Comparison
from migrate.settings.base import Name, Section

_TABLE = re.compile(r"[^.\x00]{1,64}\.[^\x00\n]{1,64}")
_PASSING = re.compile(r"_migrate_.*|_.*_(gho|ghc|del|new|old)", re.DOTALL)
"""Tables of this service, and of online schema changes under way (gh-ost, pt-online-schema-change)."""
_PLACEHOLDER = re.compile(r"(?<!\$)\{table\}")


class RowCondition(Section):
    """One condition on a table's rows: a column, and exactly one comparison."""

    column: str
    is_: Any = Field(default=None, alias="is")
    is_not: Any = None
    in_: tuple[Any, ...] = Field(default=(), alias="in")
    at_least: Any = None
    above: Any = None
    at_most: Any = None
    below: Any = None

    @model_validator(mode="after")
    def _one_comparison(self) -> RowCondition:
        if len(self.model_fields_set - {"column"}) != 1:
            tests = ", ".join(Comparison)
            raise ValueError(f"column '{self.column}' needs exactly one of {tests}")
        if self.test is Comparison.IN and not self.in_:
            raise ValueError(f"column '{self.column}': the list of 'in' is empty")
        return self

    @property
    def test(self) -> Comparison:
        (name,) = self.model_fields_set - {"column"}
        return Comparison(name.rstrip("_"))

    @property
    def values(self) -> tuple[object, ...]:
        (name,) = self.model_fields_set - {"column"}
        value = getattr(self, name)
        return value if self.test is Comparison.IN else (value,)


class SourceDatabase(Section):
    """Where a database that the sources' own rules (`home`) name really is."""

    source: Name
    database: str = Field(min_length=1, max_length=64)


class DdlPolicy(Section):
    """What statements in the source's log do to the publisher, by kind. `stop`: it stops in front of one.

    columns: that change columns, or let more rows in. `ignore`: the targets are altered by hand; `apply`: by the
    publisher. rename: that give the table another name. `ignore`: the table is known by that name. truncate: TRUNCATE
    of the whole table. `apply`: the publisher empties the target tables too.
    """

    columns: Literal["stop", "ignore", "apply"] = "stop"
    rename: Literal["stop", "ignore"] = "stop"
    truncate: Literal["stop", "apply"] = "stop"


STOP = DdlPolicy()


class TableSettings(Section):
    name: str
    """database.table; with * and ? a pattern for every table of that kind that `migrate init` finds."""
    exclude: tuple[str, ...] = ()
    """Names or patterns that the pattern leaves out."""
    source: Name | None = None
    key: tuple[str, ...] | None = None
    ddl: DdlPolicy = STOP
    """What a statement in the source's log that may change this table does; one word is for its columns."""
    rows: tuple[RowCondition, ...] = ()
    """Only rows that meet all of these belong to the migration."""
    group: Name | None = None
    """Tables of one group, at one source or several, share their target tables."""
    update_time: str | None = None
    """The column by which a change that is older than the target's row is skipped until the table is copied and caught
    up; for a target that others write too."""
    unique_apart: bool = False
    """No two tables of its group, nor target tables of it after the switch, hold the same values of a unique key."""
    sharding: dict[str, Any]
    home: dict[str, Any] | None = None
    """The sources' own rule, as `sharding` is written: which source table each row of the group belongs to."""

    @model_validator(mode="before")
    @classmethod
    def _table_in_its_rule(cls, value: object) -> object:
        """As `for_table`, of a table that is named as itself."""
        if not isinstance(value, dict) or not isinstance(name := value.get("name"), str) or is_pattern(name):
            return value
        table = name.partition(".")[2]
        return {**value, "sharding": _with_table(value["sharding"], table)} if "sharding" in value else value

    @field_validator("name")
    @classmethod
    def _database_and_table(cls, value: str) -> str:
        if not _TABLE.fullmatch(value):
            raise ValueError(f"{value!r} is not written as database.table")
        return value

    @field_validator("ddl", mode="before")
    @classmethod
    def _ddl_of_columns(cls, value: object) -> object:
        return {"columns": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _home_of_a_group(self) -> TableSettings:
        if self.home is not None and self.group is None:
            raise ValueError(f"{self.name}: 'home' tells the tables of a group apart, and it has no 'group'")
        return self

    @model_validator(mode="after")
    def _applies_for_itself(self) -> TableSettings:
        if self.ddl.truncate == "apply" and self.group is not None and self.written:
            raise ValueError(
                f"{self.name}: 'ddl: {{truncate: apply}}' is for a table that shares its target tables with no other:"
                " it would remove the rows of the group's other tables too. Set `truncate: stop`"
            )
        shared = "rows" if self.rows else "update_time" if self.update_time is not None else ""
        if self.ddl.truncate == "apply" and shared:
            raise ValueError(
                f"{self.name}: 'ddl: {{truncate: apply}}' removes every row of the target tables, and with {shared!r}"
                " others may have rows there: take one of the two out"
            )
        return self

    @model_validator(mode="after")
    def _filters_by_itself(self) -> TableSettings:
        if self.update_time is not None and self.group is not None:
            raise ValueError(
                f"{self.name}: 'update_time' is for a table that shares its target tables with no other: take one of"
                " 'update_time' and 'group' out"
            )
        return self

    @model_validator(mode="after")
    def _excludes_from_a_pattern(self) -> TableSettings:
        if self.exclude and not self.is_pattern:
            raise ValueError(f"{self.name} is one table; 'exclude' belongs to a pattern")
        return self

    @property
    def written(self) -> bool:
        """Whether a config file has it."""
        return True

    @property
    def is_pattern(self) -> bool:
        return is_pattern(self.name)

    def matches(self, database: str, table: str) -> bool:
        """Whether the pattern takes a table of this name, letter for letter but for * and ?.

        Never one of this service, nor the passing ones of an online schema change (`_t_gho`, `_t_new` and so on), nor
        one of a database with a dot in its name: `database.table` would be read as another one.
        """
        name = f"{database}.{table}"
        if _PASSING.fullmatch(table) or "." in database:
            return False
        return like(self.name, name) and not any(like(left_out, name) for left_out in self.exclude)

    def for_table(self, database: str, table: str) -> TableSettings:
        """The settings of one table that the pattern takes; `{table}` in its sharding rule is the table's name."""
        sharding = _with_table(self.sharding, table)
        return self.model_copy(update={"name": f"{database}.{table}", "exclude": (), "sharding": sharding})

    @property
    def database(self) -> str:
        return self.name.split(".", 1)[0]

    @property
    def table(self) -> str:
        return self.name.split(".", 1)[1]


def is_pattern(name: str) -> bool:
    """Whether the name stands for any number of tables."""
    return "*" in name or "?" in name


def like(pattern: str, name: str) -> bool:
    parts = (".*" if sign == "*" else "." if sign == "?" else re.escape(sign) for sign in pattern)
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None


def _with_table(value: Any, table: str) -> Any:
    """A sharding rule with `{table}` replaced in every text; `${table}` is an expression and stays. In a text with
    backquotes the name's own are doubled."""
    if isinstance(value, dict):
        return {key: _with_table(item, table) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_table(item, table) for item in value]
    if not isinstance(value, str):
        return value
    return _PLACEHOLDER.sub(lambda _found: table.replace("`", "``") if "`" in value else table, value)
