"""The session that a logged statement ran in, as its Query event carries it: read, and set up again for a replay.

Sources: MySQL source documentation, "Query_event" (status variables); MariaDB's ``sql/log_event.h``, Q_… codes, and
``sql/sql_priv.h``, OPTION_EXPLICIT_DEF_TIMESTAMP, OPTION_IF_EXISTS; ``sql/charset_collations.h``, to_binary (code 131).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

UNREADABLE: Final = "\ufffd"

_FLAGS2, _SQL_MODE, _CLIENT, _TIME_ZONE, _CHARSET_DATABASE, _UPDATED_DATABASES = 0, 1, 4, 5, 8, 12
_EXPLICIT_TIMESTAMPS, _DEFAULT_UTF8MB4, _PHASES, _COLLATIONS = 16, 18, 130, 131
STARTS_ALTER, _COMMITS_ALTER, ROLLS_ALTER_BACK = 2, 4, 8  # MariaDB's log_event.h, FL_START_ALTER_E1 and so on
_EXPLICIT_TIMESTAMPS_FLAG = 1 << 24
_IF_EXISTS_FLAG = 1 << 28
_SIZES: Final = {
    0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 14: 8, 15: 8, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1,
    128: 3, 129: 8,
}  # fmt: skip
_TEXTS: Final = {2: (1, 1), 5: (1, 0), 6: (1, 0), 11: (2, 0)}
"""Those that are texts with a length byte: how many, and bytes behind."""
_TOO_MANY_DATABASES = 254

_EXACT: Final = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "binary": "utf-8", "ascii": "ascii", "latin1": "cp1252",
    "latin2": "iso8859_2", "latin5": "iso8859_9", "latin7": "iso8859_13", "cp1250": "cp1250", "cp1251": "cp1251",
    "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "koi8r": "koi8_r", "tis620": "tis_620",
    "macroman": "mac_roman", "macce": "mac_latin2", "hp8": "hp_roman8", "gbk": "gbk", "gb2312": "gb2312",
}  # fmt: skip
"""Character sets that Python reads as the servers do; a test compares every character."""
_ALMOST: Final = {
    "greek": "iso8859_7", "hebrew": "iso8859_8", "cp1256": "cp1256", "cp866": "cp866", "koi8u": "koi8_u",
    "big5": "big5", "sjis": "shift_jis", "cp932": "cp932", "ujis": "euc_jp", "eucjpms": "euc_jp", "euckr": "cp949",
    "gb18030": "gb18030",
}  # fmt: skip
"""Those in which some characters are others: good enough to see where a quote ends, not for names."""

_IGNORED_MODES: Final = 0x1003FF00
"""Bits of sql_mode that MySQL 8 knows from older logs and no session may have (sql/sql_const.h, MODE_IGNORED_MASK)."""


def codec_of(charset: str) -> str:
    """Python's name for what reads a server's character set; of those that it has not, one that reads any bytes."""
    return _EXACT.get(charset) or _ALMOST.get(charset) or "latin-1"


@dataclass(frozen=True, slots=True)
class StatementSession:
    """mode: sql_mode as bits. client, connection, server: collation ids of character_set_client, collation_connection
    and collation_server; database: of the default database, where it is not the server's. time_zone: where the
    statement depends on it. utf8mb4: default_collation_for_utf8mb4 (MySQL). flags: MariaDB's option bits. phases: see
    `Statement.is_part`. databases: all whose tables the statement changes, by its triggers and routines too (MySQL,
    Q_UPDATED_DB_NAMES); None where that is not known. collations: MariaDB's character_set_collations, pairs of ids: of
    a character set's own default collation, and of the one that stands for it.
    """

    mode: int = 0
    client: int | None = None
    connection: int | None = None
    server: int | None = None
    database: int | None = None
    time_zone: str = ""
    flags: int | None = None
    explicit_timestamps: int | None = None
    utf8mb4: int | None = None
    phases: int = 0
    databases: frozenset[str] | None = None
    collations: tuple[tuple[int, int], ...] = ()

    @property
    def if_exists(self) -> bool:
        """MariaDB's sql_if_exists: DROP, RENAME and ALTER of tables are as with IF EXISTS, whatever their text says."""
        return bool((self.flags or 0) & _IF_EXISTS_FLAG)

    def variables(self, flavour: str) -> dict[str, object]:
        """Session variables with their values, for a server of the flavour that wrote the log.

        The zone SYSTEM is another one elsewhere and stays out.
        """
        mode = self.mode if flavour == "mariadb" else self.mode & ~_IGNORED_MODES
        found: dict[str, object] = {"sql_mode": mode}
        if self.client and self.connection and self.server:
            found["character_set_client"] = self.client
            found["collation_connection"] = self.connection
            found["collation_server"] = self.server
        if self.time_zone and self.time_zone != "SYSTEM":
            found["time_zone"] = self.time_zone
        if flavour == "mariadb" and self.flags is not None:
            found["explicit_defaults_for_timestamp"] = int(bool(self.flags & _EXPLICIT_TIMESTAMPS_FLAG))
        if flavour == "mysql" and self.explicit_timestamps is not None:
            found["explicit_defaults_for_timestamp"] = self.explicit_timestamps
        if flavour == "mysql" and self.utf8mb4:
            found["default_collation_for_utf8mb4"] = self.utf8mb4
        return found


UNKNOWN: Final = StatementSession()


def read(status: bytes) -> StatementSession:
    """The status variables; those behind one of unknown size are not found."""
    numbers: dict[int, int] = {}
    time_zone, databases = "", None
    collations: tuple[tuple[int, int], ...] = ()
    at = 0
    while at < len(status):
        code, at = status[at], at + 1
        if code in _SIZES:
            numbers[code] = int.from_bytes(status[at : at + _SIZES[code]], "little")
            at += _SIZES[code]
        elif code == _PHASES and at < len(status):
            numbers[code] = status[at]
            at += 9 if status[at] & (_COMMITS_ALTER | ROLLS_ALTER_BACK) else 1
        elif code in _TEXTS:
            count, behind = _TEXTS[code]
            for _ in range(count):
                size = status[at] if at < len(status) else 0
                if code == _TIME_ZONE:
                    time_zone = status[at + 1 : at + 1 + size].decode("ascii", "replace")
                at += 1 + size
            at += behind
        elif code == _UPDATED_DATABASES and at < len(status):
            databases, at = _names(status, at)
        elif code == _COLLATIONS and at < len(status):
            collations = tuple(struct.iter_unpack("<HH", status[at + 1 : at + 1 + 4 * status[at]]))
            at += 1 + 4 * status[at]
        else:
            break
    ids = numbers.get(_CLIENT, 0)
    return StatementSession(
        mode=numbers.get(_SQL_MODE, 0),
        client=ids & 0xFFFF or None,
        connection=ids >> 16 & 0xFFFF or None,
        server=ids >> 32 & 0xFFFF or None,
        database=numbers.get(_CHARSET_DATABASE),
        time_zone=time_zone,
        flags=numbers.get(_FLAGS2),
        explicit_timestamps=numbers.get(_EXPLICIT_TIMESTAMPS),
        utf8mb4=numbers.get(_DEFAULT_UTF8MB4),
        phases=numbers.get(_PHASES, 0),
        databases=databases,
        collations=collations,
    )


def _names(status: bytes, at: int) -> tuple[frozenset[str] | None, int]:
    """The databases that a statement changes, each with a zero byte; None where there are too many to be listed."""
    count, at = status[at], at + 1
    names = set()
    for _ in range(0 if count == _TOO_MANY_DATABASES else count):
        end = status.find(b"\0", at)
        end = len(status) if end < 0 else end
        names.add(status[at:end].decode("utf-8", "replace"))
        at = end + 1
    return (None if count == _TOO_MANY_DATABASES else frozenset(names)), at


@dataclass(frozen=True, slots=True)
class StatementText:
    """A statement's text. exact: whether each character is the server's; else only its ASCII and its quotes are.

    Bytes that are no character of the set stand as lone surrogates, so that `encode` gives the log's own bytes.
    """

    sql: str
    codec: str
    exact: bool


def decode(raw: bytes, charset: str) -> StatementText:
    """The text of a statement in a server's character set, without loss."""
    codec = _EXACT.get(charset) or _ALMOST.get(charset)
    if codec is not None:
        sql = raw.decode(codec, "surrogateescape")
        if encode(sql, codec) == raw:
            return StatementText(sql, codec, charset in _EXACT)
    return StatementText(raw.decode("ascii", "surrogateescape"), "ascii", False)


def encode(sql: str, codec: str) -> bytes | None:
    """As it stands in the log; None where it cannot be written so."""
    try:
        return sql.encode(codec, "surrogateescape")
    except UnicodeEncodeError:
        return None


def legible(sql: str, *, exact: bool = True) -> str:
    """With U+FFFD for what is not known to be the character that the server read."""
    if sql.isascii():
        return sql
    if not exact:
        return "".join(sign if sign.isascii() else UNREADABLE for sign in sql)
    return "".join(UNREADABLE if "\udc80" <= sign <= "\udcff" else sign for sign in sql)
