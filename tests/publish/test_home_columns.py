"""Columns of the sources' own rule: they travel with every row, and may not be altered into what belongs elsewhere."""

from __future__ import annotations

from dataclasses import replace

from migrate.model.table import Table
from migrate.publish.schema.definitions import _other_places
from migrate.publish.schema.following import _selected
from migrate.target.routing import PlannedTable
from tests.helpers import SHARDING, int_column, make_settings, plain_table, plan_of


def homed() -> PlannedTable:
    """shop.t, whose rows with an even `region` belong there."""
    rule = {
        "column": "region",
        "algorithm": "INLINE",
        "props": {"algorithm-expression": "${region.hashCode() % 2 == 0 ? 't' : 'u'}"},
    }
    home = {"nodes": ["old.t", "old.u"], "table": rule}
    tables = [{"name": f"shop.{one}", "group": "all", "sharding": SHARDING, "home": home} for one in "tu"]
    settings = make_settings(tables=tables, source_databases={"old": {"source": "s", "database": "shop"}})
    table = replace(plain_table(), columns=(*plain_table().columns, int_column("region")))
    return plan_of(table, replace(table, name="u"), settings=settings).tables["s", "shop", "t"]


def altered(table: Table, name: str, type_: str) -> Table:
    return replace(table, columns=tuple(replace(one, type=type_) if one.name == name else one for one in table.columns))


def test_what_tells_where_a_row_belongs_is_in_every_message_of_it() -> None:
    """A row above Kafka's limit keeps these columns and its key: without one, nobody could tell whose row it was."""
    assert homed().routing == ("shard", "region")


def test_a_column_of_the_sources_rule_is_not_altered_into_another_java_type() -> None:
    planned = homed()
    selected, table = _selected(planned), planned.table
    assert selected.needs == {"shard", "region"}
    assert _other_places(selected, table, altered(table, "v", "varchar(30)")) == ""
    assert _other_places(selected, table, altered(table, "region", "bigint(20)")) == (
        "its sharding looks at column region, and as bigint(20) it has another Java type"
    )
    gone = replace(table, columns=tuple(one for one in table.columns if one.name != "region"))
    assert _other_places(selected, table, gone) == "its sharding or its row conditions look at column region"
