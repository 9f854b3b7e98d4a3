"""A Galera cluster of MariaDB servers on one machine, whose nodes begin as copies of one data directory.

A node that has the state of the cluster on disk asks it for nothing but what came since (Galera Cluster documentation,
"Incremental State Transfer"), so no program that copies a state is needed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.database import DatabaseServer
from sandbox.ports import HOST, free_port
from sandbox.settings import Flavour

LIBRARY = Path("/usr/lib/galera/libgalera_smm.so")


@contextmanager
def cluster(root: Path) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    """Two nodes, both of which may be written; the second one is not started. Raises SandboxError."""
    ports = [free_port(), free_port()]
    seed = DatabaseServer(Flavour.MARIADB, root / "first")
    seed.start()
    seed.stop()
    shutil.copytree(root / "first", root / "second")
    first = DatabaseServer(Flavour.MARIADB, root / "first", server_id=71, options=_options(ports, 0))
    first.start()
    second = DatabaseServer(
        Flavour.MARIADB, root / "second", port=free_port(), server_id=72, options=_options(ports, 1)
    )
    told = dict(first.query("SHOW GLOBAL STATUS LIKE 'wsrep%'"))
    (second.data / "grastate.dat").write_text(
        "# GALERA saved state\nversion: 2.1\n"
        f"uuid: {told['wsrep_cluster_state_uuid']}\nseqno: {told['wsrep_last_committed']}\nsafe_to_bootstrap: 0\n"
    )
    try:
        yield first, second
    finally:
        second.kill()
        first.kill()


def _options(ports: list[int], number: int) -> dict[str, str]:
    return {
        "wsrep_on": "ON",
        "wsrep_provider": str(LIBRARY),
        "wsrep_cluster_address": "gcomm://" if number == 0 else f"gcomm://{HOST}:{ports[0]}",
        "wsrep_node_address": HOST,
        "wsrep_provider_options": f"base_port={ports[number]};gmcast.listen_addr=tcp://{HOST}:{ports[number]};"
        f"ist.recv_addr={HOST}:{free_port()}",
        "innodb_autoinc_lock_mode": "2",
        "log_slave_updates": "ON",
    }
