"""The grants in docs/grants.md suffice for a whole migration, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobs import full_copy, verify
from migrate.settings import load
from sandbox.broker import KafkaBroker
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.forked import Child, Migration
from tests.waiting import SLOW

pytestmark = pytest.mark.long

PAGE = Path(__file__).resolve().parents[2] / "docs" / "grants.md"
PASSWORD = "a-password-of-this-test"
_CREATE = (
    "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, user_id INT NOT NULL, note TEXT NULL, detail JSON NULL,"
    " doubled INT AS (user_id * 2) STORED)",
    "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(100) NOT NULL UNIQUE)",
    "INSERT INTO orders (id, user_id, note, detail) VALUES (1, 1, 'a', '[1]'), (2, 2, '', NULL), (3, 3, NULL, '{}')",
    "INSERT INTO customers VALUES (1, 'one@example.org'), (2, 'two@example.org')",
)


def statements(section: str, flavour: Flavour, name: str) -> list[str]:
    """The statements of a section for a flavour (the first block is MariaDB's), with this test's names."""
    text = PAGE.read_text("utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sql\n(.*?)^```$", text, re.S | re.M)
    block = blocks[-1] if flavour is Flavour.MYSQL else blocks[0]
    text = block.replace("a long random one", PASSWORD)
    escaped = name.replace("_", r"\_")
    text = text.replace(r"trial\_shop`", rf"trial\_{escaped}`")
    text = text.replace("`shop`", f"`{name}`").replace(r"`shop\_", rf"`{escaped}\_")
    text = text.replace(r"`migrate\_state", rf"`{escaped}\_state")
    text = text.replace("`migrate_state`", f"`{name}_state`").replace("'shop_app'@", f"'{name}_app'@")
    text = re.sub(r"'migrate_(\w+)'@", rf"'{name}_\1'@", text)
    return [line.removesuffix(";") for line in text.splitlines() if line.strip()]


def config(box: Sandbox, kafka: KafkaBroker, name: str, directory: Path) -> str:
    target = box.targets[0]

    def server(port: int, account: str) -> str:
        return f"host: {target.host}, port: {port}, user: {name}_{account}, password: {PASSWORD}"

    return f"""
name: {name}
state: {{{server(target.port, "state")}, database: {name}_state}}
sources: [{{name: main, {server(box.source.port, "source")}}}]
targets: [{{name: t1, {server(target.port, "target")}}}]
kafka: {{bootstrap: '{kafka.bootstrap}'}}
databases: {{ds_0: {{target: t1, database: {name}_0}}, ds_1: {{target: t1, database: {name}_1}}}}
consume: {{merge_interval_seconds: 0.3, idle_seconds: 0.5}}
commit: {{idle_seconds: 0.5, cleanup_interval_seconds: 1, cleanup_age_seconds: 0.1}}
delay: {{tiers_seconds: [0.5, 1]}}
run_dir: {directory / "run"}
tables:
  - name: {name}.orders
    sharding:
      nodes: "ds_${{0..1}}.orders_${{0..1}}"
      database: {{column: user_id, algorithm: MOD, props: {{sharding-count: 2}}}}
      table: {{column: id, algorithm: MOD, props: {{sharding-count: 2}}}}
  - {{name: {name}.customers, sharding: {{nodes: ds_0.customers}}}}
"""


def there_and_back(box: Sandbox, migration: Migration, name: str) -> None:
    """A cutover and a rollback, with what is granted for them in addition."""
    box.source.execute(*statements("Cutover at the sources", box.flavour, name))
    box.targets[0].execute(*statements("Cutover at the targets", box.flavour, name))
    migration.do("--reverse", "preflight")
    migration.do("--reverse", "init")
    back = Child("the reverse stream", migration.directory / "reverse.log", Path.cwd())
    back.start(migration.command("--reverse", "run"), migration.environment)
    try:
        migration.wait(lambda: migration.ask("status")["next"] == "migrate verify", SLOW, "the reverse stream to run")
        migration.do("verify")
        migration.wait(lambda: migration.ask("status")["stage"] == "ready", SLOW, "nothing to hold it back")
        sees = f"TRIGGER ON `{name}\\_0`.*".replace(name, name.replace("_", r"\_"))
        box.targets[0].execute(f"REVOKE {sees} FROM '{name}_target'@'%'")
        refused = migration.run("cutover")
        assert refused.returncode == 3
        assert f"'{name}_target'@'%' lacks TRIGGER on database {name}_0" in refused.stderr, "blind to what fires"
        assert f"GRANT {sees} TO '{name}_target'@'%' (docs/grants.md)" in refused.stderr
        box.targets[0].execute(f"GRANT {sees} TO '{name}_target'@'%'")
        migration.do("cutover")
        box.targets[0].execute("INSERT INTO orders_0 (id, user_id) VALUES (20, 20)", database=f"{name}_0")
        # by somebody whom read_only does not stop; it goes from one database of a server to the other
        box.source.execute("UPDATE orders SET user_id = 8 WHERE id = 9", database=name)
        migration.wait(lambda: migration.ask("foreign", "list")["count"] == 1, SLOW, "it to be listed")
        migration.do("foreign", "carry", f"{name}.orders", "9")
        migration.do("rollback")
        found = box.source.query(f"SELECT doubled FROM {name}.orders WHERE id = 20")
        assert found == ((40,),)
    finally:
        back.stop()
        for server in (box.source, *box.targets):
            server.execute("SET GLOBAL read_only = 0")


def test_a_whole_migration_needs_no_more_than_the_documented_grants(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    flavour = box.flavour
    name = f"grants_{flavour}"
    box.source.execute(f"CREATE DATABASE {name}")
    box.source.execute(*_CREATE, database=name)
    box.source.execute(*statements("Source", flavour, name))
    box.targets[0].execute(*statements("Targets", flavour, name), *statements("State", flavour, name))
    box.targets[0].execute(*statements("Trial", flavour, name))
    migration = Migration(box, tmp_path, config(box, kafka, name, tmp_path))

    migration.do("preflight")
    migration.do("init")
    migration.start()
    try:
        box.source.execute(
            "DELETE FROM orders WHERE id = 3",  # before the copy: comes back through the delay topics
            "UPDATE orders SET id = 5, user_id = 4 WHERE id = 1",
            "INSERT INTO orders (id, user_id) VALUES (9, 9)",
            "UPDATE customers SET email = 'new@example.org' WHERE id = 1",
            # Statements that change no columns are tried in the state's shadow database, and pass:
            "CREATE TABLE users (id INT PRIMARY KEY)",
            "SET foreign_key_checks = 0",
            "ALTER TABLE orders ADD INDEX by_user (user_id), COMMENT 'x'",
            "ALTER TABLE orders ADD CONSTRAINT to_users FOREIGN KEY (user_id) REFERENCES users (id)",
            "ALTER TABLE orders DROP FOREIGN KEY to_users",
            "CREATE TABLE _orders_gho LIKE orders",
            database=name,
        )
        settings = load(migration.config, migration.environment)
        full_copy.run(settings)
        migration.ask("drain", "--timeout", "180")
        assert verify.run(settings).clean
        cleaned = "SELECT COUNT(*) FROM record WHERE state = 2"
        migration.wait(lambda: box.targets[0].query(cleaned, database=f"{name}_state")[0][0] == 0, SLOW, "a clean-up")
        there_and_back(box, migration, name)
    finally:
        migration.stop()
    rows = {
        row
        for number in (0, 1)
        for table in (0, 1)
        for row in box.targets[0].query(f"SELECT id, user_id, doubled FROM {name}_{number}.orders_{table}")
    }
    assert rows == {(2, 2, 4), (5, 4, 8), (9, 8, 16), (20, 20, 40)}
    told = migration.do("finish", "--abandon", "--yes")
    assert "this account may not drop the tables: DROP TABLE" in told
    left = "SELECT COUNT(*) FROM _migrate_fence"
    assert [box.targets[0].query(left, database=f"{name}_{number}") for number in (0, 1)] == [((0,),), ((0,),)]
