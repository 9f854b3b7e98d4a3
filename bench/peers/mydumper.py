"""mydumper and myloader, from Debian: files in between, two threads each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.workload import Workload
from sandbox.binaries import which
from sandbox.database import DatabaseServer
from sandbox.install.system import apt_install
from sandbox.stack import Sandbox

_TIMEOUT = 1800
_STATEMENT_ROWS = "5000"


def install() -> None:
    """Raises SandboxError where apt does not have it."""
    if which("myloader") is None:
        apt_install([["mydumper"]])


class Copy:
    def __init__(self, box: Sandbox, directory: Path, load: Workload) -> None:
        self._box = box
        self._files = directory / "mydumper"
        self._database = load.database

    def run(self) -> float:
        """Dump, load; raises CalledProcessError."""
        shutil.rmtree(self._files, ignore_errors=True)
        files = ["--database", self._database, "--threads", "2"]
        dump = ["--outputdir", str(self._files), "--trx-consistency-only", "--chunk-filesize", "16"]
        self._call("mydumper", self._box.source, [*files, *dump])
        load = ["--directory", str(self._files), "--overwrite-tables", "--queries-per-transaction", _STATEMENT_ROWS]
        # Without this myloader writes nothing to the binlog, and the others do.
        self._call("myloader", self._box.targets[0], [*files, *load, "--enable-binlog"])
        shutil.rmtree(self._files)
        return 0.0

    def _call(self, program: str, server: DatabaseServer, more: list[str]) -> None:
        login = ["--host", server.host, "--port", str(server.port), "--user", server.user]
        subprocess.run([program, *login, *more], env={"MYSQL_PWD": server.password}, check=True, timeout=_TIMEOUT)
