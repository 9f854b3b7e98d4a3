"""Triggers and events of the source, where applications still write while the reverse stream is prepared."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pymysql

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow
from tests.flow.test_reverse import start_both_ways
from tests.helpers import unique

_COUNT = "INSERT INTO counted VALUES (NULL, NEW.id)"
_EVENT = "CREATE EVENT tidies ON SCHEDULE EVERY 1 DAY DO DELETE FROM orders WHERE value < 0"


def test_a_trigger_of_the_source_is_to_leave_the_reverse_stream_out_and_then_fires_for_applications_alone(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("fires"), box.source)) as flow:
        source, database = box.source, flow.database

        def told() -> list[str]:
            shown = flow.migration.run("--reverse", "preflight").stdout
            return [line.strip() for line in shown.splitlines() if "trigger counts" in line or "event " in line]

        source.execute("CREATE TABLE counted (n INT AUTO_INCREMENT PRIMARY KEY, id INT)", database=database)
        source.execute(f"CREATE TRIGGER counts AFTER INSERT ON orders FOR EACH ROW {_COUNT}", database=database)
        source.execute(_EVENT, database=database)
        flow.migration.do("init")
        trigger = f"main/{database}.orders: trigger counts (AFTER INSERT)"
        event = f"note  target 'main': event {database}.tidies may change rows of orders; what it does after a cutover"
        assert told() == [
            f"problem  {trigger} would fire for what the reverse stream brings",
            f"{event} arrives at the other side",
        ]
        refused = flow.migration.run("--reverse", "init")
        assert refused.returncode == 3
        assert f"{trigger} would fire" in refused.stderr
        assert "DROP" not in refused.stderr, "applications need it"
        guard = refused.stderr.split("its body inside ")[1].partition(",")[0]
        body = guard.replace("…", f"{_COUNT};")
        source.execute(
            "DROP TRIGGER counts",
            f"CREATE TRIGGER counts AFTER INSERT ON orders FOR EACH ROW {body}",
            database=database,
        )
        assert told()[0] == f"pass  {trigger} leaves our sessions out"

        start_both_ways(flow, "INSERT INTO orders VALUES (1, 1, 1, '')")
        application = f"{database}_app"
        source.execute(
            f"CREATE USER {application}@'%' IDENTIFIED BY 'of this test'",
            f"GRANT ALL ON {database}.* TO {application}@'%'",
        )
        with (
            closing(
                pymysql.connect(
                    host=source.host, port=source.port, user=application, password="of this test", database=database
                )
            ) as session,
            session.cursor() as cursor,
        ):
            cursor.execute("INSERT INTO orders VALUES (2, 2, 2, '')")
            session.commit()
        flow.drain()
        flow.put_applications_at("target")
        box.targets[1].execute("INSERT INTO orders_1 VALUES (5, 5, 5, 'new')", database=f"{flow.name}_1")
        flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        flow.drain()
        assert set(flow.source_rows(source)) == {1, 2, 5}
        assert source.query("SELECT id FROM counted", database=database) == ((2,),), "it fires for applications alone"
        assert flow.differences(source) == []
        source.execute(f"DROP USER {application}@'%'", "DROP EVENT tidies", database=database)
