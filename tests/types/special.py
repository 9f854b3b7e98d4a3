"""Tables beside the matrix: columns of odd names, generated and invisible ones, rows from sessions in three zones."""

from __future__ import annotations

from tests.types.matrix import Case, values
from tests.types.ways import Wide

NAMES = (
    "select", "ORDER", "key", "a b", "a.b", "a`b", "``", "a\"b", "a'b", "100%", "%s", "%(x)s", "{0}", "$0", ":p", "@v",
    "#", "--", "/*", "a\\b", "a,b", "(x)", "ü", "ключ", "名前", "☃", "n" * 64, "é" * 64, "0", "1e3", "null", "data",
)  # fmt: skip
"""Emoji that are above U+FFFF are allowed in no name, on either server."""

_SAMPLES = values("'ü'", "'%s'", minimum="'a'", maximum="'🎁'", zero="'0'", empty="''")
_MOMENTS = values("'2024-06-01 12:00:00.123456'", "'2024-03-31 01:30:00'", minimum="'1970-01-03 00:00:00'", zero="0")


def special_tables() -> list[Wide]:
    return [names(), zones(), generated(), not_null()]


def names() -> Wide:
    cases = [Case(f"a column named {name}", "VARCHAR(9)", _SAMPLES, exact="HEX({0})") for name in NAMES]
    return Wide("odd_names", cases, NAMES, key="`key` %s")


def zones() -> Wide:
    """Each row is written in another zone of the session; the servers and the machine have three more."""
    cases = [
        Case("TIMESTAMP(6) of sessions in three zones", "TIMESTAMP(6) NULL", _MOMENTS, exact="UNIX_TIMESTAMP({0})"),
        Case("DATETIME(6) of sessions in three zones", "DATETIME(6)", _MOMENTS),
    ]
    return Wide("three_zones", cases, ("ts", "dt"), zones=("+00:00", "-11:30", "+13:00"))


def generated() -> Wide:
    cases = [
        Case("INT that generated columns read", "INT", values("5", minimum="-9", maximum="9999", zero="0")),
        Case("INT INVISIBLE", "INT INVISIBLE DEFAULT 7", values("5", minimum="-9", maximum="9999", zero="0")),
    ]
    more = {
        "a generated column, stored": "g_stored BIGINT GENERATED ALWAYS AS (n * 3) STORED",
        "a generated column, virtual": "g_virtual VARCHAR(40) GENERATED ALWAYS AS (CONCAT(n, '%', hidden)) VIRTUAL",
    }
    return Wide("generated_ones", cases, ("n", "hidden"), generated=more)


def not_null() -> Wide:
    """Defaults that a target must not fill in by itself."""
    now = "NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"
    moments = values("'2001-02-03 04:05:06.789'", minimum="'1970-01-03 00:00:00'", zero="0")
    cases = [
        Case("TIMESTAMP(3) ON UPDATE", f"TIMESTAMP(3) {now}", moments, exact="UNIX_TIMESTAMP({0})"),
        Case("DATETIME(3) ON UPDATE", f"DATETIME(3) {now}", moments),
        Case("INT NOT NULL DEFAULT 7", "INT NOT NULL DEFAULT 7", values("5", zero="0")),
        Case("VARCHAR NOT NULL DEFAULT 'x'", "VARCHAR(9) NOT NULL DEFAULT 'x'", values("'y'", empty="''")),
    ]
    return Wide("not_null", cases, ("ts", "dt", "n", "v"))
