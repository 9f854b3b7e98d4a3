"""A ShardingSphere rule file that the config names. Costs 8 s: one migration by such a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrate.model.errors import ConfigError
from migrate.model.table import Column, Kind, Table
from migrate.settings.loading import load
from migrate.target.changed_rule import changed_rule
from migrate.target.routing import Plan, PlannedTable
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline
from tests.helpers import int_column, plan_of, raw_settings, text_column

RULES = """\
dataSources: {ds_0: {}, ds_1: {}}
rules:
- !SHARDING
  tables:
    orders:
      actualDataNodes: ds_${0..3}.orders_$->{0..3}
      databaseStrategy: {standard: {shardingColumn: user_id, shardingAlgorithmName: by_user}}
      tableStrategy: {complex: {shardingColumns: 'id,user_id', shardingAlgorithmName: by_both}}
    log:
      actualDataNodes: ds_0.log_${0..1}
      tableStrategy: {standard: {shardingColumn: id, shardingAlgorithmName: log}}
  defaultTableStrategy: {none: }
  shardingAlgorithms:
    by_user: {type: INLINE, props: {algorithm-expression: 'ds_${user_id % 4}'}}
    by_both: {type: COMPLEX_INLINE, props: {algorithm-expression: 'orders_$->{(id + 4 * user_id) % 4}'}}
    log: {type: INLINE, props: {algorithm-expression: 'log_${Math.abs(id.hashCode()) % 2}'}}
"""


def written(directory: Path, rules: str, *tables: dict[str, Any]) -> Path:
    """A config file with these tables beside a file with these rules."""
    (directory / "rules.yaml").write_text(rules, "utf-8")
    databases = {f"ds_{number}": {"target": "t0", "database": f"db_{number}"} for number in range(4)}
    config = directory / "migrate.yaml"
    config.write_text(yaml.safe_dump(raw_settings(tables=list(tables), databases=databases)), "utf-8")
    return config


def plan(config: Path, *names: str) -> Plan:
    columns = (int_column("id"), int_column("user_id"))
    return plan_of(*(Table("s", "shop", name, columns, ("id",)) for name in names), settings=load(config, {}))


def places(planned: Plan, name: str, *rows: dict[str, str]) -> list[str]:
    rule = planned.tables["s", "shop", name].rule
    return [str(rule.route(row)) for row in rows]


def test_a_rule_is_the_files(tmp_path: Path) -> None:
    made = plan(written(tmp_path, RULES, {"name": "shop.orders", "sharding": {"file": "rules.yaml"}}), "orders")
    assert places(made, "orders", {"id": "6", "user_id": "3"}, {"id": "9", "user_id": "8"}) == [
        "ds_3.orders_2",
        "ds_0.orders_1",
    ]


def test_tables_of_a_pattern_are_looked_up_by_their_names_or_by_one(tmp_path: Path) -> None:
    own = {"name": "shop.o*", "sharding": {"file": "rules.yaml"}}
    one = {"name": "shop.log?", "sharding": {"file": "rules.yaml", "logic-table": "LOG"}}
    made = plan(written(tmp_path, RULES, own, one), "orders", "log1", "log2")
    assert [len(made.tables["s", "shop", name].places) for name in ("orders", "log1", "log2")] == [16, 2, 2]


def test_a_java_type_that_the_file_does_not_know_is_given(tmp_path: Path) -> None:
    """The hash of -2 is odd for a Long, even for an Integer."""
    row = {"id": "-2", "user_id": "0"}
    for types, place in ({}, "ds_0.log_0"), ({"value-types": {"ID": "Long"}}, "ds_0.log_1"):
        table = {"name": "shop.log", "sharding": {"file": "rules.yaml", **types}}
        assert places(plan(written(tmp_path, RULES, table), "log"), "log", row) == [place]


BROADCAST = f"{RULES}- !BROADCAST\n  tables: [countries]\n"
COUNTRIES: dict[str, Any] = {"name": "shop.o*", "sharding": {"file": "rules.yaml", "logic-table": "countries"}}


@pytest.mark.parametrize(("old", "nodes"), [("", 2), ("dataSources: {ds_0: {}, ds_1: {}}\n", 4)])
def test_a_broadcast_table_of_the_file_has_a_row_in_each_of_its_data_sources(
    tmp_path: Path, old: str, nodes: int
) -> None:
    """Of a file without any: in every database of the config."""
    planned = plan(written(tmp_path, BROADCAST.replace(old, ""), COUNTRIES), "orders").tables["s", "shop", "orders"]
    assert [str(place) for place in planned.places] == [f"t0/db_{number}.countries" for number in range(nodes)]
    assert planned.broadcast


def test_a_data_source_of_the_file_that_the_config_has_not_is_named(tmp_path: Path) -> None:
    config = written(tmp_path, BROADCAST.replace("ds_1: {}", "ds_9: {}"), COUNTRIES)
    with pytest.raises(ConfigError, match=r"shop\.orders: database 'ds_9' of the sharding rule is not"):
        plan(config, "orders")


def test_a_further_database_under_a_broadcast_table_is_refused_with_the_nodes_of_before(tmp_path: Path) -> None:
    """The nodes that the refusal names give the rule of before."""
    no_sources = BROADCAST.replace("dataSources: {ds_0: {}, ds_1: {}}\n", "")

    def planned(rules: str, sharding: dict[str, Any]) -> PlannedTable:
        config = written(tmp_path, rules, {"name": "shop.orders", "sharding": sharding})
        return plan(config, "orders").tables["s", "shop", "orders"]

    by_file = COUNTRIES["sharding"]
    before, now = planned(BROADCAST, by_file), planned(no_sources, by_file)
    message = str(changed_rule(now, before.rule_hash))
    named = re.search(r"name those of before, `sharding: (\{broadcast: .*\})`; or restore them, or start", message)
    assert named is not None
    assert yaml.safe_load(named[1]) == {"broadcast": ["ds_0.countries", "ds_1.countries"]}
    assert planned(no_sources, yaml.safe_load(named[1])).rule_hash == before.rule_hash
    assert "more nodes" not in str(changed_rule(now, planned(BROADCAST, {"nodes": "ds_0.countries"}).rule_hash))


@pytest.mark.parametrize("group", [{"group": "all"}, {"group": "all", "home": {"nodes": "shop.orders"}}])
def test_a_broadcast_table_is_of_no_group(tmp_path: Path, group: dict[str, Any]) -> None:
    """Sharded sources have it at each of them: one is enough."""
    table = {"name": "shop.orders", "sharding": {"broadcast": "ds_${0..1}.orders"}, **group}
    with pytest.raises(ConfigError, match=r"shop\.orders: each row is at every node, so it can be of no `group`"):
        plan(written(tmp_path, RULES, table), "orders")


def test_a_broadcast_table_is_no_rule_of_the_sources(tmp_path: Path) -> None:
    home = {"group": "all", "home": {"broadcast": "shop.orders"}}
    table = {"name": "shop.orders", "sharding": {"nodes": "ds_0.orders"}, **home}
    with pytest.raises(ConfigError, match=r"table 'all': home says that each source has every row"):
        plan(written(tmp_path, RULES, table), "orders")


def test_another_rule_in_the_file_is_another_rule_and_a_comment_is_none(tmp_path: Path) -> None:
    table = {"name": "shop.orders", "sharding": {"file": "rules.yaml"}}
    first, commented, other = (
        plan(written(tmp_path, rules, table), "orders").tables["s", "shop", "orders"].rule_hash
        for rules in (RULES, f"# a comment\n{RULES}", RULES.replace("user_id % 4", "(user_id + 1) % 4"))
    )
    assert first == commented != other


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        ({"file": "none.yaml"}, "tables: shop.orders: sharding.file: cannot read .*none.yaml: No such file"),
        ({"file": "rules.yaml", "nodes": "ds_0.t"}, r"sharding\.nodes does not go with sharding\.file"),
        ({"file": "rules.yaml", "value-types": {"id": "Lon"}}, r"sharding\.value-types gives a Java type by column"),
        (
            {"file": "rules.yaml", "logic-table": "there"},
            r"table 'shop\.orders': sharding: rules.yaml has no table 'there'",
        ),
        ({"file": 7}, r"sharding\.file is the name of a ShardingSphere rule file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, sharding: dict[str, Any], message: str) -> None:
    config = written(tmp_path, RULES, {"name": "shop.orders", "sharding": sharding})
    with pytest.raises(ConfigError, match=message):
        plan(config, "orders")


MANUAL = Path(__file__).parent / "rules" / "manual.yaml"
NUMBER = int_column("number")
MADE, CAME = (Column(name, "datetime", Kind.DATETIME, nullable=False) for name in ("made", "came"))
# Of each logical table that the file shards: columns beside the key, how many nodes it has, and rows with their nodes.
MARKET: dict[str, tuple[tuple[Column, ...], int, dict[str, str]]] = {
    "t_sale": (
        (int_column("user_id"), int_column("sale_id")),
        4,
        {"7 4": "group_1.t_sale_0", "2 1": "group_0.t_sale_1"},
    ),
    "t_sale_line": ((int_column("user_id"), int_column("sale_id")), 4, {"7 4": "group_1.t_sale_line_0"}),
    "t_wallet": ((int_column("user_id"), int_column("wallet_id")), 4, {"4 7": "group_0.t_wallet_1"}),
    "t_ledger": ((int_column("user_id"), int_column("wallet_id")), 8, {"1 4": "group_1.t_ledger_1"}),
    "t_event": ((MADE,), 4, {"2024-03-31 23:59:59": "group_0.t_event_202403"}),
    "t_profile": ((int_column("user_id"),), 2, {"3": "group_1.t_profile", "4": "group_0.t_profile"}),
    "t_member": ((text_column("email"),), 4, {"a": "group_1.t_member_1"}),  # the hash of 'a' is 97
    "t_number": ((NUMBER,), 4, {"6": "group_0.t_number_2", "-1": "group_1.t_number_3"}),
    "t_volume": ((NUMBER,), 4, {"9": "group_0.t_volume_0", "10": "group_1.t_volume_1", "30": "group_1.t_volume_3"}),
    "t_range": ((NUMBER,), 4, {"0": "group_0.t_range_0", "5": "group_0.t_range_2", "10": "group_1.t_range_3"}),
    "t_visit": ((CAME,), 4, {"2024-03-01 12:00:00": "group_0.t_visit_2"}),
}


def market(directory: Path, *names: str) -> Plan:
    """The plan of a migration whose config names the file, as it is, for all tables of its sources."""
    (directory / "rules.yaml").write_bytes(MANUAL.read_bytes())
    databases = {f"group_{number}": {"target": "t0", "database": f"db_{number}"} for number in range(2)}
    types = {"made": "LocalDateTime", "came": "String"}
    table = {"name": "shop.t_*", "sharding": {"file": "rules.yaml", "value-types": types}}
    config = directory / "migrate.yaml"
    config.write_text(yaml.safe_dump(raw_settings(tables=[table], databases=databases)), "utf-8")
    columns = {name: found[0] for name, found in MARKET.items()}
    tables = (Table("s", "shop", name, (int_column("id"), *columns.get(name, ())), ("id",)) for name in names)
    return plan_of(*tables, settings=load(config, {}))


def test_a_file_with_all_that_the_manual_has_is_a_plan_of_shard_tables(tmp_path: Path) -> None:
    planned = market(tmp_path, *MARKET, "t_country").tables
    for name, (columns, nodes, rows) in MARKET.items():
        one = planned["s", "shop", name]
        assert (len(one.places), one.broadcast) == (nodes, False), name
        for values, where in rows.items():  # by the rule's own names, and by those of the plan
            texts = [values] if len(columns) == 1 else values.split()
            row = {"id": "1", **{column.name: text for column, text in zip(columns, texts, strict=True)}}
            database, _, table = where.rpartition(".")
            place = one.places[one.rule.route_many([[row[column]] for column in one.rule.columns], rows=1)[0]]
            assert (str(one.rule.route(row)), str(place)) == (where, f"t0/db_{database[-1]}.{table}")
    country = planned["s", "shop", "t_country"]
    assert (country.broadcast, [str(place) for place in country.places]) == (
        True,
        ["t0/db_0.t_country", "t0/db_1.t_country"],
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("t_told", r"shop\.t_told.*tables\.t_told\.databaseStrategy: the strategy 'hint' is not supported"),
        ("t_secret", r"'t_secret' is under !ENCRYPT \(encryption\)"),
        ("t_probe", r"'t_probe' is under !SHADOW \(shadow databases\)"),
        ("t_setting", r"has no table 't_setting'"),
    ],
)
def test_what_such_a_file_has_and_no_row_can_be_routed_by_is_refused_for_that_table_alone(
    tmp_path: Path, table: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        market(tmp_path, table)


def test_a_migration_by_a_rule_file_puts_every_row_where_the_file_says(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    pipe = Pipeline(box, kafka, tmp_path, f"rule_file_{box.source.flavour}")
    config = yaml.safe_load(pipe.migration.config.read_text("utf-8"))
    config["tables"][0]["sharding"] = {"file": "rules.yaml"}
    pipe.migration.config.write_text(yaml.safe_dump(config), "utf-8")
    (pipe.migration.config.parent / "rules.yaml").write_text(RULES, "utf-8")
    pipe.migration.do("init")
    pipe.close_copy()
    try:
        pipe.migration.begin()
        pipe.sql("INSERT INTO orders (user_id, amount) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
        pipe.sql("UPDATE orders SET user_id = user_id + 1 WHERE id > 2", "DELETE FROM orders WHERE id = 4")
        pipe.migration.do("drain")
    finally:
        pipe.migration.stop()
    assert len(pipe.box.source.query(f"SELECT 1 FROM {pipe.source}.orders")) == 4
    assert pipe.differences() == []
