"""A server that a person names: it runs already, and is neither started nor ended here."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pymysql

from sandbox.database import DatabaseServer
from sandbox.settings import Flavour


class Named(DatabaseServer):
    """Databases are made and dropped there, and global variables are set for a time: no server that anybody needs.

    Raises the driver's error where it does not answer.
    """

    def __init__(self, host: str, port: int, user: str, password: str, root: Path) -> None:
        settings = {"host": host, "port": port, "user": user, "password": password, "ssl_disabled": True}
        with closing(pymysql.connect(**settings)) as raw, raw.cursor() as cursor:  # type: ignore[call-overload]
            cursor.execute("SELECT VERSION(), @@server_id")
            self.version, number = (str(one) for one in cursor.fetchone() or ("", "0"))
        flavour = Flavour.MARIADB if "mariadb" in self.version.lower() else Flavour.MYSQL
        super().__init__(flavour, root, name="source", port=port, server_id=int(number))
        self.host, self.user, self.password = host, user, password

    def start(self) -> None:
        """It runs."""

    def kill(self) -> None:
        """It stays."""

    def stop(self, seconds: float = 30.0) -> None:
        """It stays."""
