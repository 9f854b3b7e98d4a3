"""The sandbox itself, on real servers: they come up, survive a kill, explain themselves, and leave nothing behind."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from migrate.settings import Kafka, Source, State, Target
from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.demo_data import create_orders, load_sakila
from sandbox.errors import SandboxError
from sandbox.paths import PROJECT, kafka_classes, run_dir
from sandbox.ports import HOST, free_port, is_free
from sandbox.settings import Flavour
from sandbox.sql import load_sql
from sandbox.stack import Sandbox
from sandbox.workdir import owned, sweep
from tests.waiting import until

NEEDED_OF_A_SOURCE = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "local_infile": "ON",
    "character_set_server": "utf8mb4",
}


@pytest.fixture(scope="module")
def server(flavour: Flavour, run_root: Path) -> Iterator[DatabaseServer]:
    """One server alone, which a test may kill."""
    single = DatabaseServer(flavour, run_root / f"single-{flavour}", server_id=7)
    single.start()
    yield single
    single.kill()


def test_a_port_that_was_chosen_is_no_other_sandboxs_before_its_server_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, other = free_port(), next(port for port in range(15000, 32000) if is_free(port))
    wanted = iter([chosen, chosen, other, other + 1])
    monkeypatch.setattr("random.randint", lambda *_: next(wanted))
    assert free_port() != chosen


def is_alive(pid: int) -> bool:
    """Whether the process is there and not a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def listening_addresses(port: int) -> set[str]:
    """Local addresses, in the kernel's hexadecimal, on which something listens at the port (proc(5), net/tcp)."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            address, hexadecimal = local.split(":")
            if state == "0A" and int(hexadecimal, 16) == port:
                found.add(address)
    return found


# servers


def test_a_server_has_what_the_service_needs_of_a_source(server: DatabaseServer) -> None:
    names = ", ".join(f"'{name}'" for name in NEEDED_OF_A_SOURCE)
    rows = dict(server.query(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})"))
    assert rows == NEEDED_OF_A_SOURCE
    assert server.query("SELECT @@server_id") == ((7,),)


def test_options_of_one_server_win_over_the_common_ones(run_root: Path) -> None:
    server = DatabaseServer("mariadb", run_root / "options", options={"sync-binlog": 1, "binlog_row_image": "NOBLOB"})
    server.start()
    try:
        assert server.query("SELECT @@sync_binlog, @@binlog_row_image") == ((1, "NOBLOB"),)
    finally:
        server.kill()


def test_a_server_listens_on_the_loopback_interface_only(server: DatabaseServer, kafka: KafkaBroker) -> None:
    assert listening_addresses(server.port) == {"0100007F"}
    assert listening_addresses(kafka.port) == {"0000000000000000FFFF00000100007F"}


def test_no_account_works_without_the_generated_password(server: DatabaseServer) -> None:
    assert len(server.password) >= 20
    for user in ("root", "", "mysql"):
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            pymysql.connect(host=server.host, port=server.port, user=user, password="")
    open_accounts = server.query(
        "SELECT user, host FROM mysql.user WHERE authentication_string = '' AND user <> 'mariadb.sys'"
    )
    assert open_accounts == ()


def test_the_password_is_in_a_file_of_its_owner_only(server: DatabaseServer) -> None:
    memory = server.root / "server.json"
    assert json.loads(memory.read_text())["password"] == server.password
    assert stat.S_IMODE(memory.stat().st_mode) == 0o600
    assert not (server.root / "account.sql").exists()
    assert server.password not in Path(f"/proc/{server.pid}/cmdline").read_text()


def test_making_the_account_is_not_in_the_binlog(server: DatabaseServer) -> None:
    events = server.query("SHOW BINLOG EVENTS IN 'binlog.000001' LIMIT 5")
    assert not [event for event in events if "USER" in str(event[-1])]


def test_a_killed_server_comes_back_with_its_data_on_the_same_port(server: DatabaseServer) -> None:
    server.execute("CREATE DATABASE IF NOT EXISTS kept", "CREATE TABLE kept.t (id INT PRIMARY KEY)")
    server.execute("INSERT INTO kept.t VALUES (1), (2)")
    port, pid = server.port, server.pid
    server.kill()
    assert not is_alive(pid)
    server.start()
    assert server.port == port
    assert server.query("SELECT id FROM kept.t ORDER BY id") == ((1,), (2,))


def test_another_object_on_the_same_directory_takes_up_port_password_and_data(server: DatabaseServer) -> None:
    server.execute("CREATE DATABASE taken_up")
    server.stop()
    again = DatabaseServer(server.flavour, server.root)
    again.start()
    try:
        assert again.port == server.port
        assert again.query("SHOW DATABASES LIKE 'taken%%'") == (("taken_up",),)
    finally:
        again.stop()
        server.start()


def test_a_taken_port_is_named(run_root: Path) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            SandboxError, match=rf"mariadb server 'taken': port {port} on 127.0.0.1 is in use; stop what"
        ):
            DatabaseServer("mariadb", run_root / "taken", port=port).start()
        with pytest.raises(SandboxError, match=rf"kafka broker 'taken-kafka': port {port} on 127.0.0.1 is in use"):
            KafkaBroker(run_root / "taken-kafka", port=port).start()


def test_an_option_the_server_refuses_is_shown_with_the_servers_own_words(server: DatabaseServer) -> None:
    server.stop()
    bad = DatabaseServer(server.flavour, server.root, options={"no_such_option": 1})
    with pytest.raises(SandboxError) as caught:
        bad.start()
    server.start()
    message = str(caught.value)
    assert f"{server.flavour} server" in message
    assert "ended with exit status" in message
    assert f"last lines of {server.log}" in message
    assert "unknown variable 'no-such-option=1'" in message


def test_a_broker_maps_the_classes_that_were_archived_for_it(kafka: KafkaBroker) -> None:
    """Without them each start takes twice the processor time, and nothing says so."""
    assert str(kafka_classes().resolve()) in Path(f"/proc/{kafka.pid}/maps").read_text()


def test_a_property_kafka_refuses_is_shown_with_its_own_words(run_root: Path) -> None:
    with pytest.raises(SandboxError, match=r"(?s)failed with exit status 1; last lines of .*num.io.threads"):
        KafkaBroker(run_root / "bad-kafka", properties={"num.io.threads": "many"}).start()


def test_a_server_that_is_too_slow_is_ended_and_said_so(server: DatabaseServer) -> None:
    server.stop()
    slow = DatabaseServer(server.flavour, server.root, timeout=0.001)
    with pytest.raises(SandboxError, match=r"was not ready within 0 s \(.*\); last lines of"):
        slow.start()
    assert not slow.running
    assert is_free(slow.port)
    server.start()


def test_kafka_keeps_its_topics_over_a_kill(run_root: Path) -> None:
    broker = KafkaBroker(run_root / "killed-kafka")
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("kept", 3, 1)])["kept"].result(20)
        port = broker.port
        broker.kill()
        broker.start()
        assert broker.port == port
        topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics
        assert len(topics["kept"].partitions) == 3
    finally:
        broker.kill()


def test_free_ports_are_below_the_ephemeral_range() -> None:
    lowest_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = [free_port() for _ in range(50)]
    assert max(ports) < lowest_ephemeral
    assert len(set(ports)) > 40


# nothing left behind

OWNER = """
import sys, time
from sandbox.stack import Sandbox
box = Sandbox("{flavour}", targets=1)
box.start()
print(box.root, *(server.pid for server in box.servers), flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_a_sandbox_whose_process_is_killed(flavour: Flavour) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(flavour=flavour)], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    ) as owner:
        assert owner.stdout is not None
        root, *pids = owner.stdout.readline().split()
        assert len(pids) == 3
        assert all(is_alive(int(pid)) for pid in pids)
        owner.kill()
    until(lambda: not any(is_alive(int(pid)) for pid in pids), "the end of its servers")
    assert Path(root).exists()
    sweep()
    assert not Path(root).exists()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_up_prints_where_the_servers_are_and_a_signal_ends_all_of_it(ending: signal.Signals) -> None:
    command = [sys.executable, "-u", "-m", "sandbox", "up", "--targets", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as up:
        assert up.stdout is not None
        shown = []
        for line in up.stdout:
            shown.append(line)
            if line.startswith("Ctrl-C"):
                break
        pids = [int(line.split("pid ")[1].split()[0]) for line in shown if "pid " in line]
        assert len(pids) == 3
        up.send_signal(ending)
        assert up.stdout.read() == "stopped\n"
    assert up.returncode == 0
    assert not any(is_alive(pid) for pid in pids)
    assert not Path(shown[0].split("data in ")[1].strip()).exists()


def test_up_ends_with_a_message_when_a_server_dies() -> None:
    command = [sys.executable, "-u", "-m", "sandbox", "up", "--flavour", "mariadb", "--targets", "0", "--no-kafka"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PROJECT) as up:
        assert up.stdout is not None
        assert up.stderr is not None
        pid = next(int(line.split("pid ")[1].split()[0]) for line in up.stdout if "pid " in line)
        os.kill(pid, signal.SIGKILL)
        assert up.stderr.read().startswith("sandbox: all servers have ended; see ")
    assert up.returncode == 1


def test_up_goes_on_without_a_server_that_ends_and_starts_it_again_when_asked() -> None:
    """Lost: every other server, and a trial of what a migration does while one is down. Costs 5 s."""
    command = [sys.executable, "-u", "-m", "sandbox", "up", "--flavour", "mariadb", "--targets", "1", "--no-kafka"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as up:
        assert up.stdout is not None
        pids = (int(line.split("pid ")[1].split()[0]) for line in up.stdout if "pid " in line)
        source, target = next(pids), next(pids)
        os.kill(target, signal.SIGKILL)
        told = next(line for line in up.stdout if line.startswith("target1"))
        assert "target1 has ended, see " in told
        assert f"`kill -USR1 {up.pid}` starts it again" in told
        assert is_alive(source)
        up.send_signal(signal.SIGUSR1)
        back = int(next(line for line in up.stdout if line.startswith("target1 runs again")).split("pid ")[1])
        assert (is_alive(source), is_alive(back), back != target) == (True, True, True)
        up.send_signal(signal.SIGINT)
        assert up.stdout.read() == "stopped\n"
    assert up.returncode == 0


def test_a_failed_start_stops_the_servers_that_did_start(run_root: Path) -> None:
    box = Sandbox("mariadb", run_root / "half", targets=1, kafka=False, keep=False)
    box.targets[0].options["no_such_option"] = 1
    with pytest.raises(SandboxError, match="unknown variable"):
        box.start()
    assert not any(server.running for server in box.servers)
    assert not box.root.exists()


def test_two_sandboxes_cannot_share_a_directory_and_sweeping_leaves_used_ones() -> None:
    directory = run_dir() / f"shared-{os.getpid()}"
    with owned(directory, keep=False):
        (directory / "data").write_text("used")
        sweep()
        assert (directory / "data").exists()
        with pytest.raises(SandboxError, match=f"another sandbox uses {directory}"), owned(directory, keep=False):
            pass
    assert not directory.exists()


def test_a_kept_directory_is_not_swept() -> None:
    directory = run_dir() / f"kept-{os.getpid()}"
    with owned(directory, keep=True):
        pass
    sweep()
    assert directory.exists()
    directory.rmdir()


# data


def test_sakila_loads_whole(box: Sandbox) -> None:
    load_sakila(box.source)
    tables = box.source.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'sakila' AND table_type = 'BASE TABLE'"
    )
    counts = {name: box.source.query(f"SELECT COUNT(*) FROM sakila.{name}")[0][0] for (name,) in tables}
    assert len(counts) == 16
    assert sum(counts.values()) == 47_273
    triggers = "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = 'sakila'"
    assert box.source.query(triggers) == ((6,),)


def test_orders_are_the_same_rows_on_every_server(box: Sandbox) -> None:
    create_orders(box.source, rows=12_345)
    counted = box.source.query(
        "SELECT COUNT(*), MIN(id), MAX(id), SUM(note IS NULL) > 0, SUM(note = '') > 0, MAX(user_id) > 1 << 63, "
        "MIN(amount) < 0, COUNT(DISTINCT status) FROM orders",
        database="shop",
    )
    assert counted == ((12_345, 1, 12_345, 1, 1, 1, 1, 5),)
    row: list[Any] = list(
        box.source.query(
            "SELECT user_id, order_no, CAST(amount AS CHAR), CAST(status AS UNSIGNED), detail, "
            "CAST(created_at AS CHAR), quantity, discount, note, HEX(payload) FROM orders WHERE id = 12000",
            database="shop",
        )[0]
    )
    row[4] = json.loads(row[4])
    assert row == [
        47595,
        "SO-0000012000-4B47EFB4",
        "1005.5103",
        4,
        {"sku": "sku-38", "tags": ["a", 4, None], "gift": False},
        "2024-07-01 13:33:14.620",
        63,
        802.8571428571429,
        "note 110055103",
        "D1E53B2D65F6E7D7BA13FD4FF0CDAE1AEBD538F74AE669C78394513DDC066A090000",
    ]


def test_a_refused_statement_is_shown_with_the_file(box: Sandbox, tmp_path: Path) -> None:
    bad = tmp_path / "bad.sql"
    bad.write_text("SELECT 1;\nSELEC 2;\n")
    with pytest.raises(SandboxError, match=r"(?s)bad.sql was not loaded: .*1064.* at line 2"):
        load_sql(box.source, bad)


def test_the_client_gets_the_password_out_of_sight(box: Sandbox, tmp_path: Path) -> None:
    slow = tmp_path / "slow.sql"
    slow.write_text("SELECT SLEEP(1.5);\n")
    loading = threading.Thread(target=load_sql, args=(box.source, slow))
    loading.start()
    seen: set[str] = set()
    while loading.is_alive():
        for arguments in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.add(arguments.read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    assert [line for line in seen if "--defaults-file=" in line and "client.cnf" in line]
    assert not [line for line in seen if box.source.password in line]


def test_the_config_snippet_is_what_the_service_reads(box: Sandbox) -> None:
    text = snippet.config(box)
    values = snippet.environment(box)
    assert not [password for password in values.values() if password in text]
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    config = yaml.safe_load(text)
    source = Source.model_validate(config["sources"][0])
    assert (source.port, source.password.get_secret_value()) == (box.source.port, box.source.password)
    assert [Target.model_validate(target).port for target in config["targets"]] == [t.port for t in box.targets]
    assert State.model_validate(config["state"]).port == box.targets[0].port
    assert "kafka" not in config


def test_the_config_snippet_names_the_broker_where_there_is_one(run_root: Path) -> None:
    box = Sandbox("mariadb", run_root / "unstarted", targets=0)
    config = yaml.safe_load(snippet.config(box))
    assert Kafka.model_validate(config["kafka"]).bootstrap == box.kafka.bootstrap


def test_installing_again_installs_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "sandbox", "install"], capture_output=True, text=True, cwd=PROJECT, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("sandbox: installed: mariadb, mysql, kafka, java")
