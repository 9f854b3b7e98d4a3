"""One session of a server for all of its databases: each statement runs in the database of whoever sends it."""

from __future__ import annotations

from pymysql.constants import SERVER_STATUS

from migrate.mysql.connection import Connection


class InDatabase(Connection):
    """A server's session, in one of its databases whenever a statement is sent by this one.

    Nothing is sent while a transaction of another database, or a result of one, is open: it would become a part of it.
    """

    def __init__(self, server: Connection, database: str) -> None:
        super().__init__(server.raw, server.name)
        self.unset = server.unset
        self.database = database
        self._server = server

    def enter(self) -> None:
        """Raises: the driver's error when there is no such database; RuntimeError while another one is busy."""
        if self._server.database == self.database:
            return
        if self._busy():
            raise RuntimeError(
                f"{self.name}: a statement for database {self.database} while {self._server.database} is not done"
            )
        self.raw.select_db(self.database)
        self._server.database = self.database

    def _busy(self) -> bool:
        result = self.raw._result  # type: ignore[attr-defined]
        if result is not None and result.unbuffered_active:
            return True
        return bool(int(self.raw.server_status) & SERVER_STATUS.SERVER_STATUS_IN_TRANS)  # type: ignore[attr-defined]
