"""Statements that change rows, taken apart as far as it can be told which table they change and which they read.

A statement that calls what may be a stored function, or that is of a form not read here, is not understood: it might
change any table. Sources: MySQL manual, "Data Manipulation Statements", "Function Name Parsing and Resolution" (a
native function comes before a stored one of its name where "(" stands right behind it); MariaDB knowledge base.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from migrate.publish.schema.ddl import Name
from migrate.publish.schema.sqltext import Token, without_last_semicolon

VERBS: Final = frozenset(["INSERT", "REPLACE", "UPDATE", "DELETE"])
_MODIFIERS: Final = ("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE")
_NOT_READ: Final = frozenset(["WITH", "TABLE", "CALL", "LATERAL", "HANDLER", "LOAD", "INTO"])
_CLAUSES: Final = frozenset(
    ["WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "FOR", "LOCK", "WINDOW", "RETURNING"]
)
"""What ends a list of tables."""
_BEFORE_PARENTHESES: Final = frozenset(
    re.findall(
        r"\w+",
        "VALUES IN AND OR NOT XOR ON USING WHERE SELECT UNION ALL DISTINCT EXISTS WHEN THEN ELSE CASE BETWEEN LIKE"
        " REGEXP RLIKE DIV MOD INTERVAL HAVING BY SET INDEX KEY PARTITION FROM JOIN",
    )
)
"""Reserved words, which no function has for a name, behind which something in parentheses may stand."""
_NATIVE: Final = frozenset(
    re.findall(
        r"\w+",
        "ABS AVG BIT_AND BIT_OR BIT_XOR CAST CEIL CEILING CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONV CONVERT COUNT"
        " CRC32 CURDATE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURTIME DATE DATE_ADD DATE_FORMAT DATE_SUB DATEDIFF"
        " DAY FLOOR FROM_UNIXTIME GREATEST GROUP_CONCAT HEX HOUR IF IFNULL INSTR INT ISNULL JSON_ARRAY JSON_EXTRACT"
        " JSON_OBJECT JSON_SET JSON_UNQUOTE LAST_INSERT_ID LEAST LEFT LENGTH LOCALTIME LOCALTIMESTAMP LOCATE LOWER LPAD"
        " LTRIM MAX MD5 MIN MINUTE MONTH NOW NULLIF RAND REPEAT REPLACE REVERSE RIGHT ROUND RPAD RTRIM SECOND SHA1 SHA2"
        " SIGN STR_TO_DATE SUBSTR SUBSTRING SUM SYSDATE TIMESTAMP TIMESTAMPDIFF TO_DAYS TRIM TRUNCATE UNHEX"
        " UNIX_TIMESTAMP UPPER USER UTC_DATE UTC_TIME UTC_TIMESTAMP UUID VALUES WEEK YEAR"
        " CHAR VARCHAR BINARY VARBINARY DECIMAL TIME",
    )
)
"""Native functions that change no table, and types in a CAST. Others count as stored ones."""


@dataclass(frozen=True, slots=True)
class Dml:
    """verb: of `VERBS`. changes: the one table whose rows it changes itself; reads: others that it names."""

    verb: str
    changes: Name
    reads: tuple[Name, ...] = ()


def parse(found: Sequence[Token], database: str) -> Dml:
    """The statement; database: the session's default. Raises ValueError for one that is not understood."""
    read = _Reading(without_last_semicolon(found), database)
    verb = read.verb()
    changes = read.target(verb)
    read.refuse_calls()
    return Dml(verb, changes, tuple(dict.fromkeys(name for name in read.others() if name != changes)))


class _Reading:
    def __init__(self, found: Sequence[Token], database: str) -> None:
        self._tokens = found
        self._database = database
        self._at = 0

    def verb(self) -> str:
        token = self._next()
        if not token.is_word(*VERBS):
            raise ValueError("it is of another kind")
        self._at += 1
        while self._next().is_word(*_MODIFIERS):
            self._at += 1
        return token.text.upper()

    def target(self, verb: str) -> Name:
        """Whose rows change. Afterwards the place behind it is next."""
        if self._next().is_word("FROM" if verb == "DELETE" else "INTO" if verb in ("INSERT", "REPLACE") else ""):
            self._at += 1
        elif verb == "DELETE":
            raise ValueError("it may delete rows of several tables")
        name, self._at = self._name(self._at)
        ends = "SET" if verb == "UPDATE" else "WHERE"
        for token in self._tokens[self._at :] if verb in ("UPDATE", "DELETE") else ():
            if token.is_word(ends):
                break
            if token.depth == 0 and (token.is_sign(",") or token.is_sign(".") or token.is_word("JOIN", "USING")):
                raise ValueError("it may change rows of several tables")
        return name

    def refuse_calls(self) -> None:
        for at in range(self._at, len(self._tokens) - 1):
            before, token = self._tokens[at], self._tokens[at + 1]
            if before.is_word(*_NOT_READ):
                raise ValueError(f"what {before.text.upper()} means in it is not read here")
            if not token.is_sign("(") or not before.is_name:
                continue
            qualified = self._tokens[at - 1].is_sign(".")
            word = before.text.upper() if before.kind == "word" and not qualified else ""
            if word not in _BEFORE_PARENTHESES and not (word in _NATIVE and before.end == token.start):
                raise ValueError(f"{before.text!r} in it may be a stored function")

    def others(self) -> list[Name]:
        """The tables behind FROM and JOIN, and behind the commas between them."""
        found: list[Name] = []
        listed: set[int] = set()  # depths at which a list of tables is under way
        wanted = False
        at = self._at
        while at < len(self._tokens):
            token = self._tokens[at]
            at += 1
            if wanted and token.is_sign("("):
                listed.add(token.depth + 1)
            elif wanted and token.is_word("SELECT", "VALUES"):
                listed.discard(token.depth)
                wanted = False
            elif wanted:
                wanted = False
                if not token.is_word("DUAL"):
                    name, at = self._name(at - 1)
                    found.append(name)
            elif token.is_word("FROM", "JOIN", "STRAIGHT_JOIN"):
                listed.add(token.depth)
                wanted = True
            elif token.is_sign(",") and token.depth in listed:
                wanted = True
            elif token.is_word(*_CLAUSES):
                listed.discard(token.depth)
            elif token.is_sign(")"):
                listed.discard(token.depth + 1)
        return found

    def _next(self) -> Token:
        if self._at >= len(self._tokens):
            raise ValueError("it ends early")
        return self._tokens[self._at]

    def _name(self, at: int) -> tuple[Name, int]:
        """A table's name, and the place behind it."""
        parts = self._tokens[at : at + 3]
        if not parts or not parts[0].is_name:
            raise ValueError("a name is missing in it")
        if len(parts) == 3 and parts[1].is_sign("."):
            if not parts[2].is_name:
                raise ValueError("a name is missing in it")
            return (parts[0].text, parts[2].text), at + 3
        if not self._database:
            raise ValueError("there is no default database")
        return (self._database, parts[0].text), at + 1
