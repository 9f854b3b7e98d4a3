"""What a row holds, and every password, stay out of what is told of refusals: logs, state, pages, JSON, certificates.

A value is put into each kind of refusal that a target has; then all that was written anywhere is searched for it, and
for the servers' passwords. What a unique key refuses (error 1062) is in tests/mysql/test_connection.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import yaml

from sandbox.broker import KafkaBroker
from sandbox.ports import HOST, free_port
from sandbox.stack import Sandbox
from tests.failover.support import TABLES, Flow, wait
from tests.helpers import unique

VALUE = "canary-4711"
NUMBER = 8_154_711_815_471_181_547
COLUMNS = ", plain VARCHAR(60) NOT NULL DEFAULT ''" + "".join(
    f", {name} VARCHAR(60)" for name in ("i", "e", "d", "c", "s", "j")
)
AT_TARGET = (
    "MODIFY i INT, MODIFY e ENUM('a'), MODIFY d DATE, MODIFY plain VARCHAR(5) NOT NULL DEFAULT '',"
    f" ADD CHECK (c <> '{VALUE}'), MODIFY j JSON,"
    " ADD COLUMN more BIGINT AS (value * 9) STORED"
)
SIGNAL = (
    "CREATE TRIGGER t_{0} BEFORE INSERT ON orders_{0} FOR EACH ROW IF NEW.s IS NOT NULL THEN BEGIN"
    " DECLARE told VARCHAR(100) DEFAULT CONCAT('no row with ', NEW.s); SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = told;"
    " END; END IF"
)
TOKENS = ("canary-web-0815-token", "canary-instance-0815-token", "canary-kafka-0815-secret")
REFUSED = {
    "plain": (1406,),
    "i": (1366,),
    "e": (1265,),
    "d": (1292, 1265),
    "c": (3819, 4025),
    "s": (1644,),
    "j": (3140, 4025),
    "value": (1690, 1264),
}
"""By column, what the servers answer."""


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    more = "verify: {master: 'local[2]', rechecks: 1, recheck_seconds: 0.1}\nlogging: {level: DEBUG, format: json}\n"
    shared, of_instance, of_kafka = TOKENS
    more += f"web: {{listen: '{HOST}:{free_port()}', token: '{shared}', tokens: {{app-1: '{of_instance}'}}}}\n"
    of = {"more": more, "columns": COLUMNS, "kafka_more": f", security: {{sasl.password: '{of_kafka}'}}"}
    with closing(Flow(box, kafka, tmp_path, unique("canary"), box.source, **of)) as made:  # type: ignore[arg-type]
        made.migration.do("init")
        for number, server in enumerate(box.targets):
            for table in range(TABLES):
                server.execute(
                    f"ALTER TABLE orders_{table} {AT_TARGET}",
                    SIGNAL.format(table),
                    database=f"{made.name}_{number}",
                )
        made.child("publish", "publish", "--source", "main")
        wait(made.position, "the publisher to begin")
        made.start_targets()
        yield made


def _state(flow: Flow) -> str:
    """Every row of the state database, and of the service's tables at the targets, as text; without the rows that are
    parked, which stand beside their tables."""
    found = []
    servers = [(flow.box.targets[0], f"{flow.name}_state")]
    servers += [(server, f"{flow.name}_{number}") for number, server in enumerate(flow.box.targets)]
    for server, database in servers:
        columns = (
            "SELECT TABLE_NAME, GROUP_CONCAT(COLUMN_NAME) FROM information_schema.COLUMNS"
            f" WHERE TABLE_SCHEMA = '{database}' AND COLUMN_NAME <> 'row_text' GROUP BY TABLE_NAME"
        )
        for table, names in server.query(columns):
            if database.endswith("_state") or str(table).startswith("_migrate"):
                found.append(f"{table}: {server.query(f'SELECT {names} FROM {database}.{table}')}")
    return "\n".join(found)


def asked(flow: Flow) -> str:
    """What `migrate web` answers: to a token, to a wrong one, and where the path or the body is none."""
    flow.child("web", "web")
    address = yaml.safe_load(flow.migration.config.read_text("utf-8"))["web"]["listen"]
    wait(lambda: answer(address, "GET /switch", TOKENS[0]).startswith("HTTP/1.1 200"), "the page to answer")
    requests = [("GET /switch", TOKENS[1]), ("GET /switch", "wrong"), ("GET /nothing", TOKENS[0])]
    requests += [(f"{method} /switch/app-1", token) for method in ("PUT", "POST", "DELETE") for token in TOKENS[:2]]
    return "\n".join(answer(address, *one) for one in requests)


def answer(address: str, line: str, token: str) -> str:
    host, _, port = address.partition(":")
    request = f"{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 9\r\n\r\n{{no json}}"
    with suppress(OSError), socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(request.encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return ""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_no_value_and_no_password_is_told_anywhere(flow: Flow) -> None:
    """Lost to whoever reads a log or a page: values of rows, by the servers' messages."""
    told: dict[str, str] = {}

    def say(*arguments: str) -> str:
        done = flow.migration.run(*arguments)
        told[" ".join(arguments)] = done.stdout + done.stderr
        return told[" ".join(arguments)]

    table = f"{flow.database}.orders"
    for key, (column, numbers) in enumerate(REFUSED.items(), 1):
        values = {"id": key, "user_id": key, "value": 1, "history": "''"}
        values[column] = NUMBER if column == "value" else f"'{VALUE}'"
        names, row = ", ".join(values), ", ".join(map(str, values.values()))
        flow.box.source.execute(f"INSERT INTO orders ({names}) VALUES ({row})", database=flow.database)
        (one,) = wait(lambda: flow.migration.ask("parked", "list")["stopped"], f"column {column} to be refused")
        assert any(f"error {number}" in one["reason"] for number in numbers), (column, one)
        say("status")
        say("status", "--json")
        say("parked", "list", "--json")
        flow.migration.do("parked", "skip", table, str(key), "--reason", "a test")
        wait(lambda: not flow.migration.ask("parked", "list")["stopped"], "the partition to go on")
    flow.drain()
    told["web"] = asked(flow)
    page = flow.directory / "certificate.html"
    for arguments in (
        *(("explain", table, str(key)) for key in range(1, len(REFUSED) + 1)),
        ("explain", table, "1", "--json"),
        ("parked", "list"),
        ("refresh", table, "2"),
        ("verify", "--page", str(page)),
        ("verify", "--show", "--json"),
        ("verify", "--mode", "count"),
        ("preflight",),
        ("copy", "--table", table, "--restart"),
        ("--reverse", "preflight"),
        ("--reverse", "init"),
        ("cutover",),
        ("parked", "retry"),
        ("status",),
    ):
        say(*arguments)
    assert "chunk 0: error " in told[f"copy --table {table} --restart"]
    assert f"{len(REFUSED) + 4} differences" in told[f"verify --page {page}"], "and four tables of other columns"
    for file in flow.directory.rglob("*"):
        if file.is_file() and file != flow.migration.config:
            told[str(file)] = file.read_bytes().decode("utf-8", "replace")
    assert {page, flow.directory / "consume.log"} <= {Path(one) for one in told}
    told["the state and the service's tables"] = _state(flow)
    passwords = {server.password for server in flow.box.databases}
    for where, text in told.items():
        for secret in (VALUE, str(NUMBER), *TOKENS, *passwords):
            at = text.find(secret)
            assert at < 0, f"{where}: …{text[max(0, at - 200) : at + 60]}"
