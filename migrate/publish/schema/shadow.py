"""What a table is after a statement, told by a server: the statement runs on an empty copy beside the state.

The copies live in a database of their own on the state server, and only while a statement is tried. Nothing is kept
there: what a table looked like before comes from the schema history (docs/decisions/0010).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import pymysql

from migrate.model.errors import MigrateError, ServerError
from migrate.model.table import Table
from migrate.mysql.catalog import collation_charsets, collation_names, load_table
from migrate.mysql.connection import Connection, connect
from migrate.mysql.definition import anywhere, create_as, refusal, show_create_whole
from migrate.mysql.errors import ACCESS_DENIED, explain, explained, number, passes, text
from migrate.mysql.quoting import printed, quote
from migrate.mysql.quoting import table as quoted
from migrate.publish.schema.ddl import Ddl
from migrate.publish.schema.parents import Aliases
from migrate.publish.schema.statement import Statement
from migrate.publish.schema.token_cursor import Name
from migrate.settings import State

_OURS = (
    "sql_require_primary_key",
    "sql_generate_invisible_primary_key",
    "innodb_strict_mode",
    "innodb_compression_default",
)
"""What a server may demand of tables, or add to them; the source has let these be."""
_CANNOT_SET = ACCESS_DENIED | {1193, 1231, 1238, 1273, 1298}
"""No such variable; no such value; read-only; no such collation; no such time zone."""
_BY_ID = frozenset(
    {"character_set_client", "collation_connection", "collation_server", "default_collation_for_utf8mb4"}
)
_COLLATIONS = "character_set_collations"
"""MariaDB from 11.2 on: what character sets stand for without a COLLATE."""

_SCRATCH = re.compile(r"s[0-9a-f]{8}_\d+")
_LOCK_SECONDS = 30


class NotReplayedError(Exception):
    """The state server cannot tell what the statement makes of the tables; the text says why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as a server has it. `table` is None where it has no usable key, or an unknown type; `why` says so."""

    create: str
    table: Table | None
    why: str = ""


class Shadow:
    """Replays statements. Every call opens a session of its own: they are rare."""

    def __init__(self, state: State, migration: str, source: str, flavour: str, utf8: str = "") -> None:
        """utf8: what the character set of that name stands for at the source, as `utf8_of` gives it."""
        self._state = state
        self._database = state.shadow
        self._source = source
        self._flavour = flavour
        self._utf8 = utf8
        self._prefix = f"s{zlib.crc32(f'{migration}/{source}'.encode()):08x}"

    def after(
        self,
        ddl: Ddl,
        before: Mapping[Name, Shape],
        keys: Mapping[Name, tuple[str, ...] | None],
        statement: Statement,
        collation: str | int | None = None,
    ) -> dict[Name, Shape]:
        """The tables that the statement speaks of and that are there after it.

        before: those that are there. keys: the key to choose, where the config names one. statement: with the session
        that it is run in; definitions are made and read back in one of ours. collation: what it takes
        where it names no character set, by name or number; None: unknown. Raises NotReplayedError; ServerError when
        the state server is away.
        """
        names = {name: (self._database, f"{self._prefix}_{number}") for number, name in enumerate(set(ddl.names))}
        with self._session() as session, self._session() as theirs:
            try:
                self._alone(session)
                _take_over(theirs, statement)
                self._default_collation(theirs, collation)
                if self._utf8 and "utf8" in statement.sql.lower():
                    _have_utf8(theirs, self._utf8)
                return self._replay(session, theirs, ddl, before, keys, names, statement)
            except pymysql.MySQLError as error:
                if passes(error):
                    raise explain(error, "state server, replaying a statement") from error
                raise NotReplayedError(f"the state server says: {text(error)}") from error
            finally:
                self._tidy(session, names)

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        session = connect(self._state, "state server")
        try:
            if session.flavour != self._flavour:
                raise NotReplayedError(f"the state server is {session.flavour}, the source {self._flavour}")
            with explained(f"state server, database {self._database}"):
                session.query(f"USE {quote(self._database)}")
                lenient(session)
            yield session
        finally:
            session.close()

    def _alone(self, session: Connection) -> None:
        """Nobody else tries a statement until the session ends: names of constraints are the database's, whichever
        table they are of. What a killed publisher left goes. Raises ServerError when another one takes too long."""
        if session.query("SELECT GET_LOCK(%s, %s)", (f"migrate {self._database}"[:64], _LOCK_SECONDS)) != [(1,)]:
            raise ServerError(
                f"state server: another publisher has been trying a statement in {self._database} for too long"
            )
        self._drop(session, [name for name in self._there(session) if _SCRATCH.fullmatch(name)])

    def _there(self, session: Connection) -> set[str]:
        """The tables of the database."""
        rows = session.query(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", (self._database,)
        )
        return {str(row[0]) for row in rows}

    def _replay(
        self,
        session: Connection,
        theirs: Connection,
        ddl: Ddl,
        before: Mapping[Name, Shape],
        keys: Mapping[Name, tuple[str, ...] | None],
        names: Mapping[Name, Name],
        statement: Statement,
    ) -> dict[Name, Shape]:
        parents = Aliases(self._prefix)
        for name, shape in before.items():
            copy(session, parents.in_definition(shape.create), names[name][1])
            copied = self._shape(session, name, names[name][1], keys.get(name), parents)
            if shape.table is not None and copied.table != shape.table:
                raise NotReplayedError(f"the state server makes another table of {'.'.join(name)} than the source")
        written = statement.encoded(ddl.rewritten(names, parents.of) % ())
        if written is None:
            raise NotReplayedError("its character set has no such letters")
        theirs.query_raw(written)
        there = self._there(session)
        return {
            name: self._shape(session, name, scratch, keys.get(name), parents)
            for name, (_, scratch) in names.items()
            if scratch in there
        }

    def _shape(
        self, session: Connection, name: Name, scratch: str, key: tuple[str, ...] | None, parents: Aliases
    ) -> Shape:
        printed = parents.undone(show_create_whole(session, self._database, scratch), name[0])
        create = _as_the_source_names(printed, scratch, name[1])
        try:
            found = load_table(session, self._source, self._database, scratch, key)
        except MigrateError as error:
            return Shape(create, None, error.message.replace(f"{self._database}.{scratch}", ".".join(name)))
        return Shape(create, replace(found, database=name[0], name=name[1]))

    def _default_collation(self, session: Connection, collation: str | int | None) -> None:
        """Of the database: what a statement without character set takes."""
        if isinstance(collation, int):
            row = session.one("SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE ID = %s", (collation,))
            collation = None if row is None else str(row[0])
        if collation:
            session.query(f"ALTER DATABASE {quote(self._database)} COLLATE {quote(collation)}")

    def _drop(self, session: Connection, scratches: Iterable[str]) -> None:
        for scratch in scratches:
            session.query(f"DROP TABLE IF EXISTS {quoted(self._database, scratch)}")

    def _tidy(self, session: Connection, names: Mapping[Name, Name]) -> None:
        """What cannot be dropped now is by who comes next."""
        with suppress(pymysql.MySQLError, OSError):
            self._drop(session, [scratch for _, scratch in names.values()])


def utf8_of(connection: Connection) -> str:
    """What a statement of MariaDB means by the character set utf8, in sessions that begin now; "" on MySQL.

    utf8mb3, or utf8mb4 where the global `old_mode` is without UTF8_IS_UTF8MB3 (MariaDB's manual, "OLD_MODE"). The log
    does not tell of a session that had another one. The connection's own `old_mode` is as before at the end.
    """
    if connection.flavour != "mariadb":
        return ""
    ((own, new),) = connection.query("SELECT @@SESSION.old_mode, @@GLOBAL.old_mode")
    try:
        connection.query("SET SESSION old_mode = %s", [new])
        return _utf8(connection)
    finally:
        connection.query("SET SESSION old_mode = %s", [own])


def _utf8(connection: Connection) -> str:
    row = connection.one("SELECT CHARSET(CONVERT('a' USING utf8))")
    return "utf8mb4" if row is not None and row[0] == "utf8mb4" else "utf8mb3"


def _have_utf8(session: Connection, wanted: str) -> None:
    """Raises NotReplayedError where the state server cannot mean that by utf8."""
    if _utf8(session) != wanted:
        session.query("SET SESSION old_mode = %s", ["UTF8_IS_UTF8MB3" if wanted == "utf8mb3" else ""])
        if _utf8(session) != wanted:
            raise NotReplayedError(f"utf8 is {wanted} at the source, which the state server cannot be told")


def lenient(session: Connection) -> None:
    """Have a session make every table that the source has made. Raises the driver's error."""
    session.query("SET SESSION foreign_key_checks = 0")
    for name in _OURS:
        _set(session, name, 0, needed=False)


def copy(session: Connection, create: str, name: str) -> None:
    """Make a table again in a session's database. create: as the source prints it; in which of its files the table is
    stays behind. Raises NotReplayedError where the server does not take it; the driver's error."""
    try:
        session.query(create_as(anywhere(create), name))
    except pymysql.MySQLError as error:
        if passes(error) or number(error) in ACCESS_DENIED:
            raise
        raise NotReplayedError(f"the state server says: {refusal(session, error)}") from error


def _as_the_source_names(create: str, scratch: str, table: str) -> str:
    """With the names that the source gives constraints without one: the table's, the kind, and the next number (MySQL
    manual, "CHECK Constraints", "FOREIGN KEY Constraints")."""
    for kind in ("chk", "ibfk"):
        own = re.compile(rf"(CONSTRAINT `){re.escape(printed(table)[1:-1])}_{kind}_(\d+)`")
        taken = max((int(found[2]) for found in own.finditer(create)), default=0)

        def named(found: re.Match[str], kind: str = kind, taken: int = taken) -> str:
            return f"{found[1]}{printed(f'{table}_{kind}_{int(found[2]) + taken}')[1:]}"

        create = re.sub(rf"(CONSTRAINT `){re.escape(scratch)}_{kind}_(\d+)`", named, create)
    return create


def _take_over(session: Connection, statement: Statement) -> None:
    """Make a session as the statement's was. Raises NotReplayedError where the account may not or the server cannot."""
    charsets, collations = collation_charsets(session), collation_names(session)
    for name, value in _variables(session, statement, charsets, collations).items():
        try:
            _set(session, name, value, needed=True)
        except pymysql.MySQLError as error:
            if number(error) not in _CANNOT_SET:
                raise
            if name != "time_zone":  # only a default's text depends on a zone, no column's shape
                raise NotReplayedError(
                    f"the state server cannot have {name} as the statement's session: {text(error)}"
                ) from error


def _variables(
    session: Connection, statement: Statement, charsets: Mapping[int, str], collations: Mapping[int, str]
) -> dict[str, object]:
    """With names for ids: MariaDB takes some of its collations by name alone. Raises NotReplayedError for what a
    session of this server cannot have."""
    found = statement.session.variables(session.flavour)
    for name in _BY_ID & found.keys():
        by_id = charsets if name == "character_set_client" else collations
        found[name] = by_id.get(int(str(found[name])), found[name])
    chosen = statement.session.collations
    if session.query(f"SHOW SESSION VARIABLES LIKE '{_COLLATIONS}'"):
        if all(one in charsets and other in collations for one, other in chosen):
            return found | {_COLLATIONS: ",".join(f"{charsets[one]}={collations[other]}" for one, other in chosen)}
    elif not chosen:
        return found
    raise NotReplayedError(f"the state server cannot have {_COLLATIONS} as the statement's session")


def _set(session: Connection, name: str, value: object, *, needed: bool) -> None:
    """Set a session variable that is another. Raises the driver's error where that fails and it is needed."""
    try:
        if session.query(f"SELECT @@SESSION.{name}") != [(value,)]:
            session.query(f"SET SESSION {name} = %s", [value])
    except pymysql.MySQLError as error:
        if needed or number(error) not in _CANNOT_SET:
            raise
