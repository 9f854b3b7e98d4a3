"""The config file: every mistake is one line that names the key, and no secret is shown."""

from __future__ import annotations

import copy
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrate.model.errors import ConfigError
from migrate.settings import Source, load, load_with_text, parse
from migrate.settings.tables import DdlPolicy
from tests.helpers import make_settings, raw_settings

SECRET = "canary-secret-0815"


def changed(path: str, value: Any) -> dict[str, Any]:
    """The smallest config with one key set; `...` removes it."""
    raw = copy.deepcopy(raw_settings())
    *parents, last = path.split(".")
    at: Any = raw
    for part in parents:
        at = at[int(part)] if part.isdigit() else at.setdefault(part, {})
    key: Any = int(last) if last.isdigit() else last
    if value is ...:
        del at[key]
    else:
        at[key] = value
    return raw


def refused(raw: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(raw, {}, "migrate.yaml")
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    "path",
    [
        *("nonsense", "state.pasword", "sources.0.tls.cert", "targets.1.weight", "databases.ds_0.port"),
        *("kafka.brokers", "tables.0.shard", "publish.x", "consume.merge_interval", "copy.y", "verify.z"),
        *("lease.second", "logging.sql"),
    ],
)
def test_an_unknown_key_is_named(path: str) -> None:
    assert refused(changed(path, 1)) == f"unknown key '{path}'"


@pytest.mark.parametrize(
    "path",
    [
        *("name", "state", "sources", "targets", "databases", "kafka", "tables", "state.host"),
        *("sources.0.name", "targets.1.user", "databases.ds_1.target", "kafka.bootstrap", "tables.0.sharding"),
    ],
)
def test_a_missing_key_is_named(path: str) -> None:
    assert refused(changed(path, ...)) == f"missing key '{path}'"


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("state.port", "many", "(is 'many')"),
        ("state.port", 0, "greater than 0"),
        ("state.port", 70000, "less than 65536"),
        ("state.host", 5, "valid string (is 5)"),
        ("state.tls.mode", "maybe", "'off' or 'verify'"),
        ("state.connect_timeout", 0, "greater than 0"),
        ("sources", [], "at least 1 item"),
        ("sources", {}, ""),
        ("sources.0.name", "a b", "match pattern"),
        ("sources.0.server_id", 2**32, "less than 4294967296"),
        ("targets", "t0", ""),
        ("databases.ds_0.database", "", "at least 1 character"),
        ("databases.ds_0", "t0", ""),
        ("kafka.partitions", 0, "greater than 0"),
        ("kafka.partitions", 2.5, "valid integer"),
        ("kafka.max_message_bytes", 10, "greater than or equal to 10000"),
        ("kafka.security", {"group.id": "x"}, "'group.id' is not a security.*, sasl.* or ssl.* option"),
        ("kafka.security", {"ssl.engine.id": "own"}, "'ssl.engine.id' is not among the options that are allowed"),
        ("kafka.security", {"ssl.engine.location": "engine.so"}, "'ssl.engine.location' loads a library"),
        ("kafka.security", {"ssl.providers": "legacy"}, "'ssl.providers' loads a library"),
        ("kafka.security", {"sasl.kerberos.kinit.cmd": "id"}, "'sasl.kerberos.kinit.cmd' is a command of the shell"),
        ("spark_conf", {"spark.jars": "a.jar"}, "'spark.jars' loads code"),
        ("spark_conf", {"spark.jars.packages": "a:b:1"}, "'spark.jars.packages' loads code"),
        ("spark_conf", {"spark.driver.extraClassPath": "a.jar"}, "'spark.driver.extraClassPath' loads code"),
        ("spark_conf", {"spark.executor.extraJavaOptions": "-javaagent:a.jar"}, "loads code"),
        ("spark_conf", {"spark.driver.defaultJavaOptions": "-javaagent:a.jar"}, "loads code"),
        ("spark_conf", {"spark.executor.extraJavaOptions": "-Xss1m -XX:OnOutOfMemoryError=id"}, "loads code"),
        ("spark_conf", {"spark.plugins": "a.B"}, "'spark.plugins' loads code"),
        ("spark_conf", {"executor.memory": "1g"}, "'executor.memory' is no option of Spark"),
        ("spark_conf", {"spark.speculation": True}, "'spark.speculation' cannot be set here"),
        ("spark_conf", {"spark.authenticate.secret": "x-long"}, "would be seen in the list of processes"),
        ("spark_conf", {"spark.executorEnv.SOURCE_PASSWORD": "x-long"}, "would be seen in the list of processes"),
        ("spark_conf", {"spark.executor.cores": None}, ""),
        ("tables", [], "at least 1 item"),
        ("tables.0.name", "orders", "'orders' is not written as database.table"),
        ("tables.0.name", "shop.", "'shop.' is not written as database.table"),
        ("tables.0.name", "shop.orders\n", "is not written as database.table"),
        ("tables.0.ddl", "run", "'stop', 'ignore' or 'apply'"),
        ("tables.0.key", "id", ""),
        ("tables.0.sharding", "MOD", ""),
        ("consume.lookup_keys", -1, "greater than 0"),
        ("delay.tiers_seconds", [], "at least 1 item"),
        ("delay.tiers_seconds.0", 0, ""),
        ("lease.seconds", 1, "greater than or equal to 2"),
        ("logging.level", "LOUD", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("logging.log_sql", "sometimes", "valid boolean"),
        ("name", "a/b", "match pattern"),
        ("name", "x" * 49, "match pattern"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(path: str, value: Any, told: str) -> None:
    raw = changed(path, value) if path != "delay.tiers_seconds.0" else changed("delay", {"tiers_seconds": [value]})
    message = refused(raw)
    assert message.startswith(f"'{path}")
    assert told in message


def test_options_of_spark_are_texts_and_may_say_where_a_secret_is() -> None:
    options = {"spark.executor.cores": 2, "spark.ui.enabled": True, "spark.authenticate.secret.file": "/run/s"}
    options |= {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -Dlog4j2.level=warn"}
    options |= {"spark.kubernetes.driver.secretKeyRef.SOURCE_PASSWORD": "migrate:source"}
    found = parse(changed("spark_conf", options), {}).spark_conf
    assert (found["spark.executor.cores"], found["spark.ui.enabled"], len(found)) == ("2", "true", 5)


def test_every_mistake_is_told_in_one_line() -> None:
    raw = changed("state.port", "many")
    raw["nonsense"] = 1
    del raw["kafka"]
    assert refused(raw).count("; ") == 2


def test_every_password_of_our_pages_is_a_sample() -> None:
    """Lost to who tries the passwords of our own documents: the servers."""
    pages = [*Path("docs").rglob("*.md"), Path("README.md"), *Path("config").iterdir(), Path("docker-compose.yml")]
    written = re.compile(r"IDENTIFIED BY '([^']+)'|(?:password|token|secret)\"?: *[\"']([^\"'$]+)[\"']", re.IGNORECASE)
    found = {one for page in pages for pair in written.findall(page.read_text("utf-8")) for one in pair if one}
    assert found, "no page shows one any more"
    for password in found:
        assert "is empty or a sample password" in refused(changed("state.password", password)), password


@pytest.mark.parametrize(
    "password",
    ["", "changeme", "CHANGE-ME", "password", "Secret", "123456", "root", "a long random one", "admin123", "Passw0rd!"],
)
@pytest.mark.parametrize("path", ["state", "sources.0", "targets.1"])
def test_an_empty_or_sample_password_is_refused(path: str, password: str) -> None:
    """Lost to who tries the passwords of our own documents: the servers."""
    message = refused(changed(f"{path}.password", password))
    assert message.startswith(f"'{path}.password': is empty or a sample password")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("state.password", 815),
        ("sources.0.password", [SECRET]),
        ("sources.0.password", {SECRET: SECRET}),
        ("kafka.security", {"sasl.password": 815}),
        ("kafka.security", {"ssl.key.pem": 815}),
    ],
)
def test_a_secret_of_a_wrong_type_is_not_shown(path: str, value: Any) -> None:
    message = refused(changed(path, value))
    assert message.startswith(f"'{path}")
    assert "815" not in message


def test_what_came_from_the_environment_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(changed("state.port", "${PW}"), {"PW": SECRET})
    assert "'state.port'" in caught.value.message
    assert SECRET not in str(caught.value)


def test_settings_do_not_show_their_passwords() -> None:
    settings = parse(changed("state.password", "${PW}"), {"PW": SECRET})
    assert settings.state.password.get_secret_value() == SECRET
    assert SECRET not in repr(settings)
    assert SECRET not in settings.model_dump_json()


# -- the environment


@pytest.mark.parametrize("name", ["PW", "pw", "My_Pw2", "_X"])
def test_values_come_from_the_environment(name: str) -> None:
    settings = parse(changed("state.host", f"db-${{{name}}}.internal"), {name: "seven"})
    assert settings.state.host == "db-seven.internal"


def test_a_variable_that_is_not_set_is_named_with_its_key() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(changed("sources.0.password", "${SOURCE_PW}"), {"OTHER": "x"})
    assert caught.value.message == "environment variable SOURCE_PW, named by 'sources.0.password', is not set"
    assert caught.value.hint == "export SOURCE_PW=... before the command"


def test_statements_are_applied_for_all_tables_of_a_group_or_for_none() -> None:
    raw = raw_settings()
    raw["tables"][0] |= {"ddl": "apply", "group": "all"}
    raw["tables"].append({**raw["tables"][0], "name": "shop.u"})
    assert {one.ddl.columns for one in parse(raw, {}).tables} == {"apply"}
    raw["tables"][1]["ddl"] = "ignore"
    assert "group 'all': 'ddl: apply' is for all of its tables, or for none of them" in refused(raw)


def test_what_statements_do_is_said_by_their_kind_or_in_one_word() -> None:
    raw = raw_settings()
    raw["tables"][0]["ddl"] = "ignore"
    assert parse(raw, {}).tables[0].ddl == DdlPolicy(columns="ignore")
    raw["tables"][0]["ddl"] = {"columns": "apply", "rename": "ignore", "truncate": "apply"}
    assert parse(raw, {}).tables[0].ddl == DdlPolicy(columns="apply", rename="ignore", truncate="apply")
    for wrong, told in (
        ("no", "tables.0.ddl.columns"),
        ({"truncate": "ignore"}, "tables.0.ddl.truncate"),
        ({"drop": "apply"}, "tables.0.ddl.drop"),
        (7, "tables.0.ddl"),
    ):
        raw["tables"][0]["ddl"] = wrong
        assert told in refused(raw)


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ({"group": "all"}, "is for a table that shares its target tables with no other"),
        ({"rows": [{"column": "id", "at_least": 5}]}, "and with 'rows' others may have rows there"),
        ({"update_time": "at"}, "and with 'update_time' others may have rows there"),
    ],
)
def test_no_target_tables_are_emptied_that_others_may_have_rows_in(beside: dict[str, Any], why: str) -> None:
    raw = raw_settings()
    raw["tables"][0] |= {"ddl": {"truncate": "apply"}, **beside}
    assert why in refused(raw)


def test_tables_that_share_their_target_tables_are_not_filtered_by_a_time() -> None:
    raw = raw_settings()
    raw["tables"][0] |= {"update_time": "at", "group": "all"}
    assert "'update_time' is for a table that shares its target tables with no other: take one" in refused(raw)


def test_an_empty_variable_is_an_empty_password() -> None:
    with pytest.raises(ConfigError, match="empty or a sample password"):
        parse(changed("state.password", "${PW}"), {"PW": ""})


def test_expressions_of_sharding_rules_keep_their_dollar_signs() -> None:
    sharding = {"nodes": "ds_${0..1}.t", "database": {"column": "x", "algorithm": "INLINE", "props": {"e": "${ID}"}}}
    raw = changed("tables.0.sharding", sharding)
    assert parse(raw, {"ID": "no"}).tables[0].sharding == sharding


def test_only_sharding_rules_keep_them() -> None:
    raw = changed("databases.sharding_1", {"target": "t0", "database": "d_${N}"})
    assert parse(raw, {"N": "5"}).databases["sharding_1"].database == "d_5"


def test_a_value_from_the_environment_is_not_expanded_again() -> None:
    assert parse(changed("state.password", "${PW}"), {"PW": "${HOME}"}).state.password.get_secret_value() == "${HOME}"


# -- names


@pytest.mark.parametrize("section", ["sources", "targets"])
def test_a_name_given_twice_is_refused(section: str) -> None:
    raw = raw_settings()
    raw[section] = [raw[section][0], dict(raw[section][0])]
    assert refused(raw) == f"{section}: '{raw[section][0]['name']}' is there twice"


@pytest.mark.parametrize("second", [{}, {"source": "s"}])
def test_a_table_given_twice_is_refused(second: dict[str, str]) -> None:
    raw = raw_settings()
    raw["tables"] = [raw["tables"][0], {**raw["tables"][0], **second}]
    assert refused(raw) == "tables: 's shop.t' is there twice"


def test_chunks_begun_together_fit_into_the_sessions_that_are_allowed() -> None:
    assert make_settings(copy={"chunks_at_once": 8}).connections.per_server == 16
    raw = raw_settings(copy={"chunks_at_once": 9})
    assert refused(raw) == "copy.chunks_at_once: 9 is above half of connections.per_server (16)"


def test_names_must_lead_somewhere() -> None:
    assert refused(changed("databases.ds_0.target", "t9")) == "databases.ds_0.target: there is no target named 't9'"
    assert refused(changed("tables.0.source", "s9")) == "tables: shop.t: there is no source named 's9'"


def test_with_two_sources_each_table_says_whose_it_is() -> None:
    raw = raw_settings()
    raw["sources"] = [raw["sources"][0], {**raw["sources"][0], "name": "s2", "port": 3307}]
    assert refused(raw) == "tables: shop.t needs 'source', one of s, s2"
    raw["tables"] = [{**raw["tables"][0], "source": "s"}]
    assert refused(raw) == "sources: 's2' has no table under 'tables'"
    raw["tables"].append({**raw["tables"][0], "source": "s2"})
    settings = parse(raw, {})
    assert [settings.source_of(table) for table in settings.tables] == ["s", "s2"]


def test_the_name_of_messages_without_a_source_is_taken() -> None:
    assert refused(changed("sources.0.name", "canal")) == "sources: the name 'canal' stands for messages from Canal"


@pytest.mark.parametrize("twice", [{"target": "t0", "database": "d0"}, {"target": "t2", "database": "d0"}])
def test_two_names_for_one_database_are_refused(twice: dict[str, str]) -> None:
    """They would share one fence: what one of them has would count for the other after a crash."""
    raw = raw_settings()
    raw["targets"].append({**raw["targets"][0], "name": "t2"})  # another name for the server of t0
    raw["databases"]["ds_1"] = twice
    assert refused(raw) == "databases.ds_1: is the same database as databases.ds_0"


def test_look_ups_of_names_that_are_not_there() -> None:
    settings = make_settings()
    assert settings.source("s").host == "127.0.0.1"
    with pytest.raises(ConfigError, match="no source named 'x'"):
        settings.source("x")
    with pytest.raises(ConfigError, match="no target named 'x'"):
        settings.target("x")


def test_topic_group_and_delay_topics_follow_the_migrations_name() -> None:
    settings = make_settings()
    assert (settings.topic, settings.group) == ("migrate.m", "migrate.m")
    assert settings.delay_topics(settings.topic) == ("migrate.m.delay.0", "migrate.m.delay.1")
    own = make_settings(kafka={"bootstrap": "x:1", "topic": "t", "group": "g"}, delay={"tiers_seconds": [1]})
    assert (own.topic, own.group, own.delay_topics(own.topic)) == ("t", "g", ("t.delay.0",))


def test_a_tables_name_ends_at_its_first_dot() -> None:
    table = parse(changed("tables.0.name", "shop.a.b`c"), {}).tables[0]
    assert (table.database, table.table) == ("shop", "a.b`c")


# -- the file


def test_the_text_is_kept_as_written_with_its_secrets_still_named(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(changed("state.password", "${PW}")))
    settings, text = load_with_text(path, {"PW": SECRET})
    assert settings.state.password.get_secret_value() == SECRET
    assert "${PW}" in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no such file"),
        ("", "holds no settings"),
        ("- a\n- b\n", "holds no settings"),
        ("just words\n", "holds no settings"),
        ("name: [\n", "is not YAML"),
        ("name: a\n\tb: c\n", "is not YAML"),
        ("name: !!python/object/apply:os.system ['true']\n", "is not YAML"),
        (b"name: \xff\n", "cannot read"),
    ],
)
def test_a_file_that_is_no_config_is_told(tmp_path: Path, content: str | bytes | None, told: str) -> None:
    path = tmp_path / "m.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert told in caught.value.message
    assert str(path) in caught.value.message
    assert "\n" not in str(caught.value)


def test_a_directory_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path, {})


def test_a_key_written_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        textwrap.dedent(
            """
            name: m
            databases:
              ds_0: {target: t0, database: d0}
              ds_0: {target: t1, database: d1}
            """
        )
    )
    with pytest.raises(ConfigError, match=r"is not YAML: .*key 'ds_0' is there twice.* line 5"):
        load(path, {})


def test_patterns_take_the_tables_that_no_name_and_no_earlier_pattern_takes() -> None:
    settings = make_settings(
        tables=[
            {"name": "shop.log_a", "sharding": {"nodes": "ds_1.{table}_kept", "note": "${table}"}},
            {
                "name": "shop.log_*",
                "exclude": ["shop.log_old*", "*.log_?x"],
                "sharding": {"nodes": "ds_0.{table}_${0..1}"},
            },
            {"name": "s?op.*", "sharding": {"nodes": "ds_1.{table}", "note": ["${table}", "{table}"]}},
        ]
    )
    there = ["log_a", "log_b", "log_bx", "log_old1", "x", "_migrate_fence", "_x_gho", "_x_new", "_mine", "log[1]"]
    chosen = settings.choose("s", [("shop", name) for name in there] + [("shops", "y"), ("Shop", "z"), ("other", "x")])
    assert {table.name: table.sharding["nodes"] for table in chosen} == {
        "shop.log_a": "ds_1.log_a_kept",
        "shop.log_b": "ds_0.log_b_${0..1}",
        "shop.log[1]": "ds_1.log[1]",
        "shop.log_bx": "ds_1.log_bx",
        "shop.log_old1": "ds_1.log_old1",
        "shop.x": "ds_1.x",
        "shop._mine": "ds_1._mine",
    }
    assert next(table for table in chosen if table.name == "shop.x").sharding["note"] == ["${table}", "x"]
    assert settings.choose("another", [("shop", "x")]) == []


def test_a_table_goes_to_the_first_topic_that_takes_it() -> None:
    kafka = {"bootstrap": "127.0.0.1:1", "topics": {"one": ["shop.a", "x.*"], "two": ["*.a"]}}
    settings = make_settings(kafka=kafka)
    assert settings.topics == ("migrate.m", "one", "two")
    found = [settings.topic_of(*name.split(".")) for name in ("shop.a", "x.a", "y.a", "shop.b")]
    assert found == ["one", "one", "two", "migrate.m"]
    with pytest.raises(ConfigError, match="is the topic of every table"):
        make_settings(kafka={"bootstrap": "127.0.0.1:1", "topics": {"migrate.m": ["shop.a"]}})


def test_no_pattern_takes_a_table_of_a_database_with_a_dot_in_its_name() -> None:
    """Lost: the whole `migrate init`, to a table `b.t` of a database `a` that is not there."""
    (table,) = parse(changed("tables", [{"name": "*.t", "sharding": {"nodes": "ds_0.t"}}]), {}).tables
    assert (table.matches("a.b", "t"), table.matches("a", "t")) == (False, True)


def test_exclude_without_a_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match="belongs to a pattern"):
        make_settings(tables=[{"name": "shop.t", "exclude": ["shop.x"], "sharding": {"nodes": "ds_0.t"}}])


def _source(**changes: Any) -> Source:
    raw = raw_settings()
    raw["sources"][0] |= changes
    return parse(raw, {}).sources[0]


def test_the_addresses_of_a_source_begin_with_its_host_and_keep_their_order() -> None:
    source = _source(addresses=["DB-2", "db-3:3310", "[::1]:3311"])
    assert source.places == (("127.0.0.1", 3306), ("db-2", 3306), ("db-3", 3310), ("::1", 3311))


def test_a_source_can_be_read_at_another_of_its_addresses_and_at_no_other() -> None:
    source = _source(addresses=["db-2:3310"])
    there = source.at("db-2:3310")
    assert (there.host, there.port, there.address, there.user) == ("db-2", 3310, "db-2:3310", source.user)
    assert source.at("127.0.0.1:3306") is source
    assert source.at("db-9:3310") is source  # a position from before the config was changed


@pytest.mark.parametrize("address", ["", "a b", "db:0", "db:65536", "db:x", "::1", "db:1:2", "user@db:1 "])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"sources\.0.*is not written as host or host:port"):
        _source(addresses=[address])


@pytest.mark.parametrize("twice", [["127.0.0.1"], ["db-2", "DB-2:3306"]])
def test_an_address_given_twice_is_refused(twice: list[str]) -> None:
    with pytest.raises(ConfigError, match="is there twice"):
        _source(addresses=twice)


def test_a_password_that_is_the_users_name_is_refused_and_longer_ones_with_a_sample_in_them_are_not() -> None:
    """Lost to who tries names: the servers."""
    user = raw_settings()["state"]["user"]
    assert "is the user's own name" in refused(changed("state.password", user))
    for password in ("admin-of-7-servers", "test1234567890", "demo x9"):
        assert parse(changed("state.password", password), {}).state.password.get_secret_value() == password


def test_samples_are_refused_for_every_secret_and_none_is_shown() -> None:
    """Lost to who tries the usual passwords: Kafka, and the switch."""
    for key in ("sasl.password", "ssl.key.password"):
        message = refused(changed("kafka.security", {key: "123456"}))
        assert f"'{key}' is empty or a sample password" in message
        assert "123456" not in message
    assert "is empty or a sample password" in refused(changed("web", {"token": "a long random one"}))
    assert "short-one" not in refused(changed("web", {"token": "short-one"}))


def test_settings_that_are_printed_show_no_secret() -> None:
    """Lost to who reads a log: secrets of Kafka."""
    options = {"sasl.mechanism": "PLAIN", "sasl.password": SECRET, "ssl.key.pem": SECRET}
    settings = parse(changed("kafka.security", options), {})
    assert SECRET not in repr(settings) + str(settings.kafka) + settings.kafka.model_dump_json()
    assert "PLAIN" in repr(settings)
    assert settings.kafka.security_options == options


STRONG = "canary-4711-0815-long"


@pytest.mark.parametrize(
    ("web", "told"),
    [
        ({"tokens": {"web-1": "canary-short"}}, "'web.tokens': 'web-1' has fewer than 16 characters"),
        ({"tokens": {"web-1": "a long random one"}}, "'web-1' is empty or a sample password"),
        ({"tokens": {"web-1": ""}}, "'web-1' has fewer than 16 characters"),
        ({"tokens": {"": STRONG}}, "'web.tokens"),
        ({"tokens": {"a" * 129: STRONG}}, "'web.tokens"),
        ({"tokens": {"web-1 ": STRONG}}, "begins or ends with a blank"),
        ({"tokens": [STRONG]}, "'web.tokens'"),
        ({"tokens": {"a": STRONG, "b": STRONG}}, "'b' has the same token as 'a'"),
        ({"token": STRONG, "tokens": {"web.token": STRONG}}, "'web.token' has the same token as 'web.token'"),
        ({"tls": {"certificate": STRONG}}, "missing key 'web.tls.key'"),
    ],
)
def test_tokens_that_tell_nobody_apart_or_can_be_guessed_are_refused(web: Any, told: str) -> None:
    message = refused(changed("web", web))
    assert told in message
    assert "canary" not in message


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:8087", "192.0.2.7:8087", "[::]:8087", "[2001:db8::7]:8087", "web.internal:8087"]
)
def test_an_address_that_others_reach_needs_tls(listen: str) -> None:
    message = refused(changed("web", {"listen": listen}))
    assert message.startswith("'web.listen': is not a loopback address"), message
    assert all(way in message for way in ("web.tls", "127.0.0.1 behind a proxy", listen))
    tls = {"certificate": "web.pem", "key": "web.key"}
    assert parse(changed("web", {"listen": listen, "tls": tls}), {}).web.listen == listen


@pytest.mark.parametrize("listen", ["127.0.0.1:8087", "127.8.9.1:1", "[::1]:8087", "localhost:8087"])
def test_the_loopback_interface_needs_none(listen: str) -> None:
    assert parse(changed("web", {"listen": listen}), {}).web.listen == listen
