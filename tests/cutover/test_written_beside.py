"""A server that applications write to through other members of its group or cluster as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from migrate.cutover import whole_logs
from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError
from migrate.mysql import left_out
from migrate.mysql.connection import connect
from migrate.settings import Source
from sandbox import galera
from sandbox.database import DatabaseServer
from sandbox.ports import HOST, free_port
from sandbox.settings import Flavour
from tests.helpers import address, server_of
from tests.waiting import until

GROUP = "0b9d2e9c-9f1b-4a55-8f0e-0d6f8a6f1c11"
RECOVERY = "joins-the-group-7"


@contextmanager
def member(root: Path, number: int, ports: list[int]) -> Iterator[DatabaseServer]:
    """Of a group in which each may be written; not joined yet."""
    options = {
        "performance_schema": "ON",
        "plugin_load_add": "group_replication.so",
        "loose_group_replication_group_name": GROUP,
        "loose_group_replication_single_primary_mode": "OFF",
        "loose_group_replication_enforce_update_everywhere_checks": "ON",
        "loose_group_replication_local_address": f"{HOST}:{ports[number]}",
        "loose_group_replication_group_seeds": ",".join(f"{HOST}:{port}" for port in ports),
        "loose_group_replication_start_on_boot": "OFF",
        "report_host": HOST,
        "innodb_doublewrite": None,
    }
    server = DatabaseServer(Flavour.MYSQL, root / f"member{number}", server_id=61 + number, options=options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def joined(server: DatabaseServer, *, first: bool) -> None:
    server.execute(
        "SET SESSION sql_log_bin = 0",
        f"CREATE USER recovers@'%' IDENTIFIED BY '{RECOVERY}'",
        "GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO recovers@'%'",
    )
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_USER='recovers', SOURCE_PASSWORD='{RECOVERY}'"
        " FOR CHANNEL 'group_replication_recovery'"
    )
    server.execute(
        f"SET GLOBAL group_replication_bootstrap_group = {'ON' if first else 'OFF'}",
        "SET GLOBAL group_replication_recovery_get_public_key = ON",
        "START GROUP_REPLICATION",
        "SET GLOBAL group_replication_bootstrap_group = OFF",
    )


def beside(server: DatabaseServer, **account: str) -> str:
    with closing(connect(server_of(server, **account), "source 's'")) as connection:
        return left_out.written_beside(connection)


@pytest.mark.long  # 20 s: two servers that form a group
def test_a_cutover_is_refused_while_another_member_of_the_group_may_be_written(run_root: Path) -> None:
    """Lost: what was committed at another primary in the freeze; the cutover closed one member and switched."""
    ports = [free_port(), free_port()]
    with member(run_root / "group", 0, ports) as source, member(run_root / "group", 1, ports) as other:
        assert beside(source) == "", "it has no group yet"
        joined(source, first=True)
        assert beside(source) == "", "it is alone"
        joined(other, first=False)
        where = f"{HOST}:{other.port}"
        until(lambda: beside(source) == where, "the other one to join")
        source.execute("CREATE USER few@'%' IDENTIFIED BY 'sees-nothing-of-it-7'")
        assert beside(source, user="few", password="sees-nothing-of-it-7") in (
            where,
            "other members of its group, which this server does not show",
        )
        with closing(LeftServer(Source(name="s", **address(source)), "source")) as left:
            with pytest.raises(PreflightError, match=f"applications may write at {where} as well as at"):
                whole_logs.refuse_replicas([left])
            source.execute("SELECT group_replication_switch_to_single_primary_mode(@@server_uuid)")
            until(lambda: not beside(source), "the other one to be no primary")
            whole_logs.refuse_replicas([left])
            assert beside(other) == f"{HOST}:{source.port}", "a secondary is written through its primary"


@pytest.mark.long  # 10 s: two nodes that form a cluster
def test_a_cutover_is_refused_while_its_galera_cluster_has_another_node(run_root: Path) -> None:
    """Lost: what was committed at another node in the freeze; the cutover closed one node and switched."""
    with galera.cluster(run_root / "galera") as (source, other):
        with closing(LeftServer(Source(name="s", **address(source)), "source")) as left:
            whole_logs.refuse_replicas([left])
            other.start()
            other.execute("CREATE DATABASE written_there")
            assert ("written_there",) in source.query("SHOW DATABASES"), "it takes writes"
            with pytest.raises(PreflightError, match="applications may write at 1 more node of its Galera cluster"):
                whole_logs.refuse_replicas([left])
            other.stop()
            until(lambda: not beside(source), "the cluster to know that it left")
            whole_logs.refuse_replicas([left])
