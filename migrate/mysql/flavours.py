"""What MySQL and MariaDB call by different names, and what only one of them has: definitions, collations, types.

A source's own CREATE TABLE statement is translated word by word, outside of what stands in quotes. What has no
counterpart is left as it is: the server refuses it, and preflight says so before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from migrate.model.table import Column, Kind, Table

MARIADB, MYSQL = "mariadb", "mysql"
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.?|'')*+(?:'|\Z)|`(?:[^`]|``)*+(?:`|\Z))""", re.DOTALL)
"""In linear time: nothing is read twice, and a quote without its end takes the rest."""
_NOT_ENFORCED = " /*!80016 NOT ENFORCED */"
_COLLATE = re.compile(r"\b(COLLATE[ =])(\w+)")
_NEWER = re.compile(r" ?/\*!(?!80023 INVISIBLE )8\d{4} [^*]*\*/")
"""What MySQL 8 and later say that older servers pass over, and MariaDB does not; but for an invisible column."""
_PAGES = re.compile(
    r" ?`?(?:PAGE_COMPRESSED|PAGE_COMPRESSION_LEVEL|PAGE_CHECKSUM|ENCRYPTED|ENCRYPTION_KEY_ID|TRANSACTIONAL)`?='?\w+'?"
)
_LANGUAGES = {
    "cs": "czech", "da": "danish", "de_pb": "german2", "eo": "esperanto", "es": "spanish", "es_trad": "spanish2",
    "et": "estonian", "hr": "croatian", "hu": "hungarian", "is": "icelandic", "la": "roman", "lt": "lithuanian",
    "lv": "latvian", "pl": "polish", "ro": "romanian", "sk": "slovak", "sl": "slovenian", "sv": "swedish",
    "tr": "turkish", "vi": "vietnamese",
}  # fmt: skip
"""MySQL's names of languages in collations, and MariaDB's."""
_OF_LANGUAGE = {theirs: mine for mine, theirs in _LANGUAGES.items()}
_MYSQL_UCA = re.compile(r"utf8mb4_(?:(\w+?)_)?0900_(ai_ci|as_ci|as_cs)")
_MARIADB_UCA = re.compile(r"utf8mb4_uca1400_(?:(\w+?)_)??(?:nopad_)?(ai_ci|as_ci|as_cs)")


def collation_on(flavour: str, collation: str | None) -> str:
    """What a server of this flavour calls a collation, or the nearest it has; the same name where we know of none."""
    name = str(collation)
    if flavour == MARIADB:
        if name == "utf8mb4_0900_bin":
            return "utf8mb4_nopad_bin"
        found, languages, pattern = _MYSQL_UCA.fullmatch(name), _LANGUAGES, "utf8mb4_uca1400_{}nopad_{}"
    else:
        if name == "utf8mb4_nopad_bin":
            return "utf8mb4_0900_bin"
        found, languages, pattern = _MARIADB_UCA.fullmatch(name), _OF_LANGUAGE, "utf8mb4_{}0900_{}"
    if found is None or (found[1] and found[1] not in languages):
        return name
    return pattern.format(f"{languages[found[1]]}_" if found[1] else "", found[2])


def translated(statement: str, flavour: str) -> str:
    """A CREATE TABLE statement of the other flavour (see `definition.strip`) for a server of this one."""
    lines = statement.split("\n")
    if flavour == MARIADB:
        lines = [line for line in lines if not (" CHECK " in line and line.removesuffix(",").endswith(_NOT_ENFORCED))]
        if len(lines) > 1:  # the one before may be the last one now
            end = next(number for number, line in enumerate(lines) if line.startswith(")"))
            lines[end - 1] = lines[end - 1].rstrip(",")

    def collate(match: re.Match[str]) -> str:
        return match[1] + collation_on(flavour, match[2])

    def translate(text: str) -> str:
        text = _COLLATE.sub(collate, text)
        if flavour == MARIADB:
            return _NEWER.sub("", text).replace(" geomcollection", " geometrycollection")
        return text

    lines = [_outside_quotes(line, translate) for line in lines]
    return "\n".join(_without_pages(line) if flavour == MYSQL and line.startswith(")") else line for line in lines)


def _without_pages(line: str) -> str:
    """Without MariaDB's options for pages, whose names stand in quotes."""
    options, comment, text = line.partition(" COMMENT='")
    return _PAGES.sub("", options) + comment + text


def _outside_quotes(line: str, change: Callable[[str], str]) -> str:
    return "".join(part if index % 2 else change(part) for index, part in enumerate(_QUOTED.split(line)))


# -- tables of one flavour beside those of the other

_WIDTH = re.compile(r"\b(tinyint|smallint|mediumint|int|bigint|year)\(\d+\)")
_STAND_INS = {
    Kind.UUID: (re.compile(r"(var)?char\((3[6-9]|[4-9]\d|\d{3,})\)"), "CHAR(36) CHARACTER SET ascii"),
    Kind.INET: (re.compile(r"(var)?char\((39|[4-9]\d|\d{3,})\)"), "VARCHAR(39) CHARACTER SET ascii"),
    Kind.VECTOR: (re.compile(r"varbinary\(\d+\)|(medium|long)?blob"), "VARBINARY or BLOB"),
    Kind.JSON: (re.compile(r"longtext"), "LONGTEXT CHARACTER SET utf8mb4"),
}
"""Where the target lacks a type: what its table may have instead, and how to say so."""
_OWN = {MARIADB: frozenset({"uuid", "inet4", "inet6"}), MYSQL: frozenset({"vector"})}
"""Types that only one flavour has, or has in newer versions only."""


def only_here(column: Column, flavour: str) -> str:
    """What a table of the other flavour may have for a column of a type that only this one has; "" for other types."""
    return _STAND_INS[column.kind][1] if column.type.split("(")[0].lower() in _OWN[flavour] else ""


def sorts_alike(column: Column) -> bool:
    """Whether both flavours put the values of a key column in the same order, or one that hardly differs."""
    return column.kind not in (Kind.UUID, Kind.INET)


def unlike(mine: Table, theirs: Sequence[Column], flavours: tuple[str, str]) -> list[str]:
    """Which columns of a target's table cannot hold the source table's values as they are, and why; none when all can.

    Collations may be others, but for the unique keys': rows are compared by their bytes.
    flavours: the source's and the target's.
    """
    names, there = [column.name for column in mine.columns], {column.name: column for column in theirs}
    wrong = [f"{name} (missing)" for name in names if name not in there]
    wrong += [f"{name} (not at the source)" for name in there if name not in mine.by_name]
    if not wrong and names != [*there]:
        moved = [other for one, other in zip(names, there, strict=True) if one != other]
        wrong = [f"in another order: {', '.join(moved)}"]
    unique = {*mine.key, *(name for key in mine.unique_keys for name in key)}
    pairs = [(column, there[column.name]) for column in mine.columns if column.name in there]
    whys = [(one.name, _why(one, other, one.name in unique, flavours)) for one, other in pairs]
    return wrong + [f"{name} ({why})" for name, why in whys if why]


def _why(mine: Column, theirs: Column, in_key: bool, flavours: tuple[str, str]) -> str:
    if mine.generated != theirs.generated:
        return "generated on one side only"
    if mine.nullable != theirs.nullable:
        return "NOT NULL on one side only"
    source, target = flavours
    if source != target and theirs.kind is Kind.JSON:
        return f"JSON of {target}, which writes documents anew; make it LONGTEXT CHARACTER SET utf8mb4"
    if source != target and mine.kind in _STAND_INS and mine.kind is not theirs.kind:
        pattern, told = _STAND_INS[mine.kind]
        fits = pattern.fullmatch(theirs.type.lower()) and theirs.charset in (None, "ascii", "utf8mb4", "utf8mb3")
        return "" if fits else f"{theirs.shown_type} for {mine.shown_type}; make it {told}"
    if mine.type != theirs.type and _type(mine) != _type(theirs):
        return f"{theirs.shown_type} for {mine.shown_type}"
    if _utf8mb3(mine.charset) != _utf8mb3(theirs.charset) or mine.kind is not theirs.kind:
        return f"character set {theirs.charset} for {mine.charset}"
    wanted = collation_on(target, mine.collation)
    if in_key and _utf8mb3(theirs.collation) not in (_utf8mb3(mine.collation), _utf8mb3(wanted)):
        return f"a column of a unique key, in {theirs.collation}; make it COLLATE {wanted}"
    return ""


def _utf8mb3(name: str | None) -> str | None:
    """A character set or collation by its newer name: MySQL before 8.0.28 and MariaDB before 10.6 call it utf8."""
    return re.sub(r"^utf8(?=_|$)", "utf8mb3", name) if name is not None else None


def _type(column: Column) -> str:
    """The type as both flavours call it, and older and newer servers: MySQL 8.0.19 dropped widths of integers."""
    text = re.sub(r" /\*.*\*/", "", column.type).replace("geomcollection", "geometrycollection")
    return text if "zerofill" in text else _WIDTH.sub(r"\1", text)
