"""ShardingSphere's rule files: the rows real ShardingSphere-JDBC wrote with them, and what is refused."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from migrate.model.errors import ConfigError, StopError
from migrate.sharding.rule import build_rule
from migrate.sharding.shardingsphere import RuleFile

FOLDER = Path(__file__).parent
COLUMN_TYPE = {
    "Integer": "int(11)",
    "Long": "bigint(20)",
    "BigInteger": "decimal(65,0)",
    "String": "varchar(200)",
}


@cache
def read_file(path: Path) -> RuleFile:
    return RuleFile(path.read_text("utf-8"), str(path))


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    result: dict[str, Any] = json.loads((FOLDER / "vectors.json").read_text(encoding="utf-8"))
    return result


def literal(value: str) -> str:
    """ShardingSphere's parser makes the smallest type of a literal that holds it."""
    number = int(value)
    return "Integer" if -(2**31) <= number < 2**31 else "Long" if -(2**63) <= number < 2**63 else "BigInteger"


def test_every_row_shardingsphere_wrote_is_where_our_rule_says(vectors: dict[str, Any]) -> None:
    refused = set()
    for file, table, how, value, place in vectors["rows"]:
        java = literal(value) if how == "literal" else how
        try:
            spec = read_file(FOLDER / "rules" / file).spec(table, {"user_id": java})
            rule = build_rule(spec, table, {"user_id": COLUMN_TYPE[java]})
        except ConfigError as error:
            refused.add((table, java, error.message.split(": ")[-1]))
            continue
        try:
            answer = str(rule.route({"user_id": value}))
        except StopError:
            answer = None
        assert answer == place, f"{file} {table} {java} {value}"
    assert refused == {
        # ShardingSphere refuses these texts row by row
        ("orders", "String", "Groovy's Math.floorMod(String, Integer) is not supported here"),
        ("one", "String", "Groovy's String.abs() is not supported here"),
        # Groovy would turn a BigInteger into a long, cutting it silently
        ("orders", "BigInteger", "Groovy's Math.floorMod(BigInteger, Integer) is not supported here"),
    }


def test_rows_by_several_columns_and_by_moments_are_where_our_rule_says(vectors: dict[str, Any]) -> None:
    types = COLUMN_TYPE | dict.fromkeys(("Timestamp", "LocalDateTime"), "datetime(6)")
    never: set[str] = set()
    for file, table, columns, *written, place in vectors["wide"]:
        row: dict[str, str | None] = {}
        javas = {}
        for column, java, text in zip(columns.split(", "), written[::2], written[1::2], strict=True):
            quoted = text.startswith("'")
            javas[column] = java if java != "literal" else "String" if quoted or text == "NULL" else literal(text)
            row[column] = None if text == "NULL" else text.strip("'")
        try:
            spec = read_file(FOLDER / "rules" / file).spec(table, javas)
            rule = build_rule(spec, table, {column: types[java] for column, java in javas.items()})
            answer = str(rule.route(row))
        except ConfigError as error:
            never, answer = {*never, error.message.rpartition(": ")[0]}, None
        except StopError:
            answer = None
        assert answer == place, f"{file} {table} {written}"
    assert never == {"table 'daily': sharding.table: AUTO_INTERVAL does not work on a LocalDateTime"}


def test_the_type_of_a_literal_can_route_a_value_apart_from_the_same_value_as_parameter(
    vectors: dict[str, Any],
) -> None:
    """ShardingSphere's own contradiction, the reason for value-type."""
    places = {tuple(row[1:4]): row[4] for row in vectors["rows"]}
    assert places["by_hash", "literal", "-5"] == places["by_hash", "Integer", "-5"]
    assert places["by_hash", "literal", "-5"] != places["by_hash", "Long", "-5"]


def test_the_file_gives_the_same_spec_one_would_write() -> None:
    file = read_file(FOLDER / "rules" / "plain.yaml")
    assert file.tables == ("orders", "notes", "one")
    assert file.spec("NOTES", {"User_Id": "String"}) == {
        "nodes": "ds_0.notes_${0..2}",
        "table": {
            "column": "user_id",
            "algorithm": "INLINE",
            "props": {"algorithm-expression": "notes_${Math.abs(user_id.hashCode()) % 3}"},
            "value-type": "String",
        },
    }
    auto = read_file(FOLDER / "rules" / "auto.yaml").spec("by_mod")
    assert auto["nodes"] == [f"ds_{index % 3}.by_mod_{index}" for index in range(7)]
    assert "database" not in auto


FILE = """
rules:
- !SHARDING
  tables:
    orders:
      actualDataNodes: ds_${0..1}.orders
      databaseStrategy:
        standard: {shardingColumn: user_id, shardingAlgorithmName: mod}
  shardingAlgorithms:
    mod: {type: INLINE, props: {algorithm-expression: 'ds_${user_id % 2}'}}
"""


def changed(old: str, new: str) -> str:
    assert old in FILE
    return FILE.replace(old, new)


def test_the_smallest_file_is_read() -> None:
    rule = build_rule(RuleFile(FILE).spec("orders"), "orders", {"user_id": "bigint(20)"})
    assert str(rule.route({"user_id": "3"})) == "ds_1.orders"


def test_an_empty_strategy_is_the_default_one() -> None:
    text = changed("standard: {shardingColumn: user_id, shardingAlgorithmName: mod}\n", "{}\n")
    default = "  defaultDatabaseStrategy: {standard: {shardingColumn: user_id, shardingAlgorithmName: mod}}\n"
    spec = RuleFile(text.replace("  shardingAlgorithms", default + "  shardingAlgorithms")).spec("orders")
    mod = {"column": "user_id", "algorithm": "INLINE", "props": {"algorithm-expression": "ds_${user_id % 2}"}}
    assert spec["database"] == mod
    assert "database" not in RuleFile(text).spec("orders")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "file is not YAML: "),
        ("a: 1", "file has no list 'rules' (a ShardingSphere 5 file has rules: - !SHARDING)"),
        ("shardingRule: {}", "file has no list 'rules'"),
        ("rules: []", "file has 0 !SHARDING rules instead of one"),
        ("rules: [!SHARDING {}, !SHARDING {}]", "file has 2 !SHARDING rules instead of one"),
        ("rules: [!NEW {}]", "file: a rule !NEW is not supported"),
        ("rules: [{}]", "file: a rule without a tag is not supported"),
        ("rules: [!SHARDING 5]", "file has no table 'orders'"),
        ("rules: [!SHARDING {table: {}}]", "file: !SHARDING.table is not a known key"),
        ("rules: [!SHARDING {tables: 5}]", "file: tables must be a mapping"),
        ("a: !!python/object/apply:os.system [ls]", "file is not YAML: could not determine a constructor"),
        (changed("  tables:", "  tables: {}\n  tables:"), "file: the key 'tables' is there twice"),
        (changed("orders:", "order:"), "file has no table 'orders' (tables there: order)"),
        (changed("actualDataNodes", "dataNodes"), "file: tables.orders.dataNodes is not a known key"),
        (
            changed("      actualDataNodes: ds_${0..1}.orders\n", ""),
            "tables.orders.actualDataNodes is missing",
        ),
        (
            "dataSources: {ds_0: {}, ds_1: {}}\n"
            + changed("actualDataNodes: ds_${0..1}.orders", "tableStrategy: {standard: {shardingAlgorithmName: mod}}")
            + "  defaultShardingColumn: user_id\n",
            "tables.orders.actualDataNodes is missing (name every node)",
        ),
        (changed("actualDataNodes: ds_${0..1}.orders", "actualDataNodes: [a.b]"), "orders.actualDataNodes is missing"),
        (
            changed("standard: {shardingColumn:", "complex: {shardingColumn:"),
            "tables.orders.databaseStrategy.complex.shardingColumn is not a known key",
        ),
        (changed("standard", "hint"), "the strategy 'hint' is not supported (the application gives the value by Hint"),
        (
            changed("        standard", "        none: {}\n        standard"),
            "tables.orders.databaseStrategy has several strategies: none, standard",
        ),
        (changed("shardingColumn: user_id, ", ""), "databaseStrategy.standard.shardingColumn is missing"),
        (changed("Name: mod", "Name: other"), "there is no algorithm 'other'"),
        (
            changed("INLINE", "COSID_MOD"),
            "shardingAlgorithms.mod.type: the algorithm 'COSID_MOD' is not supported",
        ),
        (
            changed("INLINE", "COMPLEX_INLINE"),
            "the algorithm 'COMPLEX_INLINE' is not supported (standard takes MOD",
        ),
        (
            changed("standard: {shardingColumn: user_id", "complex: {shardingColumns: 'id,user_id'"),
            "the algorithm 'INLINE' is not supported (complex takes COMPLEX_INLINE, CLASS_BASED)",
        ),
        (
            changed("standard: {shardingColumn: user_id,", "complex: {"),
            "tables.orders.databaseStrategy.complex.shardingColumns is missing (several, with commas)",
        ),
        (changed("INLINE", "Hint_Inline"), "algorithm 'Hint_Inline' is not supported (the application gives the value"),
        (changed("{type", "{kind: 1, type"), "shardingAlgorithms.mod.kind is not a known key"),
        (
            FILE + "  broadcastTables: [orders]\n",
            "table 'orders' is a broadcast table, and under tables (leave it out of one of the two",
        ),
        (FILE + "- !BROADCAST\n  tables: [ORDERS]\n", "table 'ORDERS' is a broadcast table, and under tables"),
        (FILE + "- !BROADCAST\n  tables: {countries: {}}\n", "!BROADCAST.tables must be a list of tables"),
        (FILE + "  broadcastTables: countries\n", "!SHARDING.broadcastTables must be a list of tables"),
        (FILE + "- !ENCRYPT\n  tables: {orders: {}}\n", "table 'orders' is under !ENCRYPT (encryption)"),
        (
            changed("  tables:", "  autoTables:").replace("actualDataNodes", "actualDataSources"),
            "autoTables.orders.databaseStrategy is not a known key",
        ),
        (
            "rules: [!SHARDING {autoTables: {orders: {actualDataSources: a}}}]",
            "autoTables.orders.shardingStrategy needs one of MOD, HASH_MOD",
        ),
        (
            "rules: [!SHARDING {autoTables: {orders: {shardingStrategy: {}}}}]",
            "autoTables.orders.actualDataSources is missing (name every one)",
        ),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        RuleFile(text, "file").spec("orders")
    assert message in str(refused.value)


# Of each logical table of rules/shop.yaml: the sharding columns of a row with their types, and where that row goes.
SHOP = {
    "t_sale": ({"user_id": ("bigint(20)", "7"), "sale_id": ("bigint(20)", "4")}, "ds_1.t_sale_0"),
    "t_sale_line": ({"user_id": ("bigint(20)", "7"), "sale_id": ("bigint(20)", "4")}, "ds_1.t_sale_line_0"),
    "t_wallet": ({"user_id": ("bigint(20)", "4"), "wallet_id": ("bigint(20)", "7")}, "ds_0.t_wallet_1"),
    "t_event": ({"made": ("datetime(3)", "2024-03-31 23:59:59.999")}, "ds_0.t_event_202403"),
    "t_member": ({"email": ("varchar(90)", "a")}, "ds_1.t_member_1"),  # the hash of 'a' is 97
    "t_visit": ({"came": ("datetime", "2024-03-01 12:00:00")}, "ds_0.t_visit_2"),  # in the second of two intervals
}
# What the manual writes otherwise after 5.5.2: strategies of keys stand beside the tables, and a key for addresses.
NEWER = (
    ("      keyGenerateStrategy:\n        column: sale_id\n        keyGeneratorName: snowflake\n", ""),
    ("      keyGenerateStrategy:\n        column: line_id\n        keyGeneratorName: snowflake\n", ""),
    (
        "  keyGenerators:\n",
        "  keyGenerateStrategies:\n"
        "    ids:\n      keyGenerateType: column\n      keyGeneratorName: snowflake\n      logicTable: t_sale\n"
        "      keyGenerateColumn: sale_id\n"
        "  keyGenerators:\n",
    ),
    ("rules:\n", "dataSources:\n  ds_0:\n    standardJdbcUrl: jdbc:mysql://localhost/shop_0\n    password:\nrules:\n"),
)


@pytest.mark.parametrize("newer", [False, True])
def test_a_whole_file_in_the_form_of_the_manual_is_read_as_it_is(newer: bool) -> None:
    text = (FOLDER / "rules" / "shop.yaml").read_text("utf-8")
    for old, new in NEWER if newer else ():
        assert text.count(old) == 1
        text = text.replace(old, new)
    file = RuleFile(text)
    assert file.tables == (*SHOP, "t_country")
    assert build_rule(file.spec("t_country", databases=["ds_0", "ds_1"]), "t_country", {}).broadcast
    for table, (columns, place) in SHOP.items():
        spec = file.spec(table, {"made": "LocalDateTime", "came": "String"})
        rule = build_rule(spec, table, {name: type_ for name, (type_, _) in columns.items()})
        assert str(rule.route({name: value for name, (_, value) in columns.items()})) == place


def test_the_forms_documented_after_5_5_2_are_read() -> None:
    """Keys' strategies stand beside the tables there; binding tables and generators say nothing about a row's place."""
    text = """
  bindingTables: ['orders,items', other]
  keyGenerateStrategies:
    ids: {keyGenerateType: column, keyGeneratorName: flake, logicTable: orders, keyGenerateColumn: id}
    numbers: {keyGenerateType: sequence, keyGeneratorName: flake, keyGenerateSequence: numbers}
  keyGenerators: {flake: {type: SNOWFLAKE}}
  auditors: {audit: {type: DML_SHARDING_CONDITIONS}}
- !BROADCAST
  tables: [countries]
"""
    hash_mod = "{type: HASH_MOD, props: {sharding-count: 2, normalize-numeric-int-range: true}}"
    text = changed("{type: INLINE, props: {algorithm-expression: 'ds_${user_id % 2}'}}", hash_mod) + text
    rule = build_rule(RuleFile(text).spec("orders", {"user_id": "Long"}), "orders", {"user_id": "bigint(20)"})
    assert str(rule.route({"user_id": "-1"})) == "ds_1.orders"  # the hash of a Long -1 is 0


@pytest.mark.parametrize(
    "text",
    [
        FILE + "  broadcastTables: [Countries]\n",
        FILE + "- !BROADCAST\n  tables: [Countries]\n",
        "rules:\n- !BROADCAST\n  tables: [Countries]\n",
    ],
)
def test_a_broadcast_table_is_in_every_database_under_the_name_that_the_file_has(text: str) -> None:
    spec = RuleFile(text).spec("countries", databases=["ds_1", "ds_0"])
    rule = build_rule(spec, "countries", {"code": "char(2)"})
    assert ([str(place) for place in rule.places], rule.broadcast) == (["ds_0.Countries", "ds_1.Countries"], True)


BROADCAST = "rules:\n- !BROADCAST\n  tables: [countries]\n"
TWO_SOURCES = f"dataSources: {{ds_1: {{}}, ds_0: {{}}}}\n{BROADCAST}"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (TWO_SOURCES, ["ds_0.countries", "ds_1.countries"]),
        (f"dataSources:\n{BROADCAST}", ["ds_0.countries", "ds_1.countries", "old.countries"]),
        (f"{TWO_SOURCES}- !SINGLE\n", ["ds_0.countries", "ds_1.countries"]),
        # Under these the rules' names are those of groups, each of some of the file's data sources.
        (f"{TWO_SOURCES}- !READWRITE_SPLITTING\n", ["ds_0.countries", "ds_1.countries", "old.countries"]),
        (f"{TWO_SOURCES}- !SHADOW\n", ["ds_0.countries", "ds_1.countries", "old.countries"]),
    ],
)
def test_a_broadcast_table_is_in_the_data_sources_of_its_file(text: str, nodes: list[str]) -> None:
    """The config may have further databases, as of another migration."""
    assert RuleFile(text).spec("countries", databases=["old", "ds_1", "ds_0"]) == {"broadcast": nodes}


def test_a_table_without_nodes_is_in_the_data_sources_of_its_file_under_its_own_name() -> None:
    """Where only databases are chosen; of a file that does not say which they are, the nodes have to be named."""
    text = changed("      actualDataNodes: ds_${0..1}.orders\n", "")
    sources = "dataSources: {ds_0: {}, ds_1: {}}\n"
    rule = build_rule(RuleFile(sources + text).spec("orders"), "orders", {"user_id": "bigint(20)"})
    assert [str(place) for place in rule.places] == ["ds_0.orders", "ds_1.orders"]
    assert str(rule.route({"user_id": "3"})) == "ds_1.orders"
    for unknown in (text, f"{sources}{text}- !READWRITE_SPLITTING\n", f"{sources}{text}- !DB_DISCOVERY\n"):
        with pytest.raises(ConfigError, match=r"tables\.orders\.actualDataNodes is missing"):
            RuleFile(unknown).spec("orders")


def test_data_sources_that_are_no_mapping_are_named() -> None:
    with pytest.raises(ConfigError, match=r"file: dataSources must be a mapping"):
        RuleFile(f"dataSources: [ds_0]\n{BROADCAST}", "file").spec("countries")


def test_other_tables_of_the_file_may_be_what_we_cannot_do() -> None:
    text = changed("  tables:", "  tables:\n    other: {actualDataNodes: a.b, tableStrategy: {hint: {}}}")
    file = RuleFile(text + "- !SINGLE\n  tables: ['*.*']\n- !READWRITE_SPLITTING\n  dataSources: {}\n")
    assert file.spec("orders")["nodes"] == "ds_${0..1}.orders"
    with pytest.raises(ConfigError, match=r"tables\.other\.tableStrategy: the strategy 'hint'"):
        file.spec("other")
