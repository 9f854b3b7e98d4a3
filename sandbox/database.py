"""A MariaDB or MySQL server of our own: data directory, port, password and account made on first start."""

import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from sandbox import fresh, state, unsynced
from sandbox.binaries import DatabasePrograms, database_programs
from sandbox.errors import SandboxError
from sandbox.ports import HOST, free_port, require_free
from sandbox.process import Child
from sandbox.releases import options_of, release
from sandbox.server import Server
from sandbox.settings import ACCOUNT, Flavour

Option = str | int | bool | None


class DatabaseServer(Server):
    """One database server under the directory `root`; can be started again on the same data and port.

    `of`: the name of a further release of the flavour (sandbox.releases); the usual server without one.
    `port`: TCP port on 127.0.0.1; without one the port used before on this data, or a free one.
    `options`: server variables on top of sandbox.settings (`{"sync_binlog": 1}`); None takes a default away,
    True gives the bare `--name`.
    `timeout`: seconds a start may take.
    """

    def __init__(
        self,
        flavour: Flavour | str,
        root: Path,
        *,
        of: str = "",
        name: str | None = None,
        port: int | None = None,
        server_id: int = 1,
        options: Mapping[str, Option] | None = None,
        timeout: float = 120.0,
    ) -> None:
        self.flavour = Flavour(flavour)
        self.release = release(of or self.flavour)
        self._further = bool(of)
        self.root = root.resolve()
        self.name = name or self.root.name
        self.server_id = server_id
        self.options: dict[str, Option] = {**options_of(self.flavour, self.release)}
        self.options.update({key.replace("-", "_"): value for key, value in (options or {}).items()})
        self.timeout = timeout
        self.host = HOST
        self.user = ACCOUNT
        self._memory = self.root / "server.json"
        known = state.load(self._memory)
        self.port: int = port or known.get("port") or 0
        self.password: str = known.get("password") or secrets.token_urlsafe(18)
        self._has_account: bool = known.get("account", False)
        self._child = Child(f"{of or self.flavour} server {self.name!r}", self.root / "server.log", self.root)

    # life

    def start(self) -> None:
        """Start it and wait until it answers; on the first start make the data directory and the account.

        Raises SandboxError when it is not installed, its port is taken, it ends, or is not ready in time.
        """
        programs = database_programs(self.flavour, self.release)
        self.root.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        require_free(self.port, self._child.name)
        self._remember()
        if not self.data.exists():
            self._initialise(programs)
        # A further release may have an older C library than the host's, which the preloaded one is for.
        self._child.start(self._command(programs), None if self._further else unsynced.environment())
        self._child.wait_until_ready(self._problem, self.timeout)
        self._has_account = True
        self._remember()
        self._account_sql.unlink(missing_ok=True)

    @property
    def data(self) -> Path:
        """The server's data directory (binlogs too)."""
        return self.root / "data"

    # use

    def connect(self, database: str | None = None, **more: Any) -> "Connection[Cursor]":
        """A PyMySQL connection with all privileges: utf8mb4, autocommit unless told otherwise.

        Without TLS: the driver would read all certificates of the machine anew each time, which takes it longer than
        most statements.
        """
        defaults = {"autocommit": True, "charset": "utf8mb4", "connect_timeout": 10, "ssl_disabled": True}
        settings: dict[str, Any] = {**defaults, **more}
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database,
            **settings,
        )

    def query(self, sql: str, parameters: Any = None, database: str | None = None) -> tuple[tuple[Any, ...], ...]:
        """Run one statement in a connection of its own and return its rows."""
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    def execute(self, *statements: str, database: str | None = None) -> None:
        """Run statements, one after the other, in one connection."""
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    # inside

    @property
    def _account_sql(self) -> Path:
        return self.root / "account.sql"

    def _remember(self) -> None:
        state.save(self._memory, {"port": self.port, "password": self.password, "account": self._has_account})

    def _run_as(self) -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []  # both refuse to run as root unless told

    def _own_tmp(self) -> list[str]:
        """A starting MariaDB deletes all temporary tables in its directory, those of other servers too."""
        temporary = self.root / "tmp"
        temporary.mkdir(exist_ok=True)
        return [f"--tmpdir={temporary}"]

    def _initialise(self, programs: DatabasePrograms) -> None:
        part = self.root / "data.part"
        if part.exists():
            raise SandboxError(f"{part} is left from a broken start; remove {self.root} and start again")
        if programs.made:
            shutil.copytree(programs.made, part)
            part.rename(self.data)
            return
        if programs.install_db:
            command = [
                *programs.install_db,
                "--auth-root-authentication-method=socket",  # no account without password
                "--skip-test-db",
                "--force",  # even where the host's own name does not resolve
            ]
        else:
            command = [*programs.server, "--initialize-insecure", "--innodb-redo-log-capacity=8M"]
            if "lower_case_table_names" in self.options:  # MySQL takes it for good
                command.append(f"--lower-case-table-names={self.options['lower_case_table_names']}")
        command += self._run_as()

        def make(directory: Path) -> None:
            if not programs.install_db:  # whose script makes its own
                directory.mkdir()
            line = [*command, f"--datadir={directory}", *self._own_tmp()]
            self._child.run_to_end(line, self.timeout, f"making the data directory of {self._child.name}")

        fresh.copy(command, part, make)
        part.rename(self.data)

    def _command(self, programs: DatabasePrograms) -> list[str]:
        command = [*programs.server]
        if programs.install_db:
            command.append("--no-defaults")
        command += [
            f"--datadir={self.data}",
            *self._own_tmp(),
            f"--port={self.port}",
            f"--bind-address={self.host}",
            f"--server-id={self.server_id}",
            "--socket=server.sock",  # relative to the data directory: full paths may exceed 107 bytes
            "--pid-file=server.pid",
            *self._run_as(),
        ]
        if self.flavour is Flavour.MYSQL and not programs.made:
            command.append("--secure-file-priv=NULL")  # the compiled-in directory does not exist here
        for name, value in self.options.items():
            option = "--" + name.replace("_", "-")
            if value is True:
                command.append(option)
            elif value is not None:
                command.append(f"{option}={int(value) if value is False else value}")
        if not self._has_account:
            state.private_file(self._account_sql, self._account_statements())
            command.append(f"--init-file={self._account_sql}")
        return command

    def _account_statements(self) -> str:
        """The account, one statement a line as --init-file wants it, kept out of the binlog."""
        account = f"'{self.user}'@'{self.host}'"
        if self.release and self.release.flavour is Flavour.MYSQL:  # 5.6, whose data came with accounts of its own
            return (
                "SET sql_log_bin = 0;\n"
                f"GRANT ALL PRIVILEGES ON *.* TO {account} IDENTIFIED BY '{self.password}' WITH GRANT OPTION;\n"
                f"DELETE FROM mysql.user WHERE NOT (User = '{self.user}' AND Host = '{self.host}');\n"
                "FLUSH PRIVILEGES;\n"
            )
        return (
            "SET sql_log_bin = 0;\n"
            f"CREATE USER IF NOT EXISTS {account};\n"
            f"ALTER USER {account} IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;\n"
            f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{self.password}';\n"
        )

    def _problem(self) -> str | None:
        try:
            # With a time limit: what listens there may be another program that never answers.
            self.connect(connect_timeout=5, read_timeout=5).close()
        except pymysql.err.Error as error:
            return f"{self.host}:{self.port}: {error.args[-1]}"
        return None
