"""Types that may be in a key, each with keys in the server's order, of which neighbours are easily taken for one.

Texts are canonical (docs/messages.md). No two of a case are one key at the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

BOTH = ("mariadb", "mysql")
_ODD = 1 << 53
"""From here on a double has no two neighbouring whole numbers."""


@dataclass(frozen=True)
class KeyCase:
    """A column definition, canonical texts in ascending order, where there is such a type, and texts that the server
    takes for one."""

    type: str
    texts: tuple[str, ...]
    flavours: tuple[str, ...] = BOTH
    same: tuple[tuple[str, str], ...] = ()


def cases_of(flavour: str) -> list[KeyCase]:
    return [case for case in CASES if flavour in case.flavours]


def _texts(*numbers: int) -> tuple[str, ...]:
    return tuple(map(str, numbers))


def _integers() -> Iterator[KeyCase]:
    for type_, bits in (("TINYINT", 8), ("INT", 32)):
        half = 1 << bits - 1
        yield KeyCase(type_, _texts(-half, 1 - half, -1, 0, 1, half - 2, half - 1))
        yield KeyCase(f"{type_} UNSIGNED", _texts(0, 1, half - 1, half, 2 * half - 2, 2 * half - 1))
    near = (-_ODD - 1, -_ODD, -1, 0, 1, _ODD, _ODD + 1)
    yield KeyCase("BIGINT", _texts(-(1 << 63), 1 - (1 << 63), *near, (1 << 63) - 2, (1 << 63) - 1))
    more = _texts(0, 1, _ODD, _ODD + 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 2, (1 << 64) - 1)
    yield KeyCase("BIGINT UNSIGNED", more)
    yield KeyCase("BIGINT(20) UNSIGNED ZEROFILL", more)
    yield KeyCase("BIT(2)", _texts(0, 1, 2, 3))
    yield KeyCase("BIT(54)", _texts(0, 1, _ODD, _ODD + 1, (1 << 54) - 1))
    yield KeyCase("BIT(64)", more)
    yield KeyCase("YEAR", ("0000", "1901", "1999", "2000", "2001", "2069", "2070", "2155"))


def _decimals() -> Iterator[KeyCase]:
    for digits, places in ((20, 0), (65, 0), (65, 30), (17, 17)):
        middle = int(("1234567890" * 7)[:digits])
        up = sorted({1, _ODD, _ODD + 1, middle, middle + 1, 10**digits - 2, 10**digits - 1})
        up = [number for number in up if number < 10**digits]
        texts = tuple(_decimal(number, places) for number in (*(-one for one in reversed(up)), 0, *up))
        yield KeyCase(f"DECIMAL({digits},{places})", texts)
    yield KeyCase("DECIMAL(65,30) UNSIGNED", tuple(_decimal(one, 30) for one in (0, 1, 10**65 - 2, 10**65 - 1)))
    yield KeyCase("DECIMAL(20,2) UNSIGNED ZEROFILL", tuple(_decimal(one, 2) for one in (0, 1, _ODD, _ODD + 1)))


def _decimal(unscaled: int, places: int) -> str:
    """`unscaled` * 10 ** -places."""
    text = str(abs(unscaled)).rjust(places + 1, "0")
    whole, fraction = (text[:-places], "." + text[-places:]) if places else (text, "")
    return f"{'-' if unscaled < 0 else ''}{whole}{fraction}"


def _floats() -> Iterator[KeyCase]:
    doubles = [1.7976931348623157e308, 9007199254740994.0, 9007199254740992.0, 1.0000000000000002, 1.0]
    doubles += [0.30000000000000004, 0.3, 0.1, 2.2250738585072014e-308, 5e-324]
    zeros = (("0.0", "-0.0"),)
    yield KeyCase("DOUBLE", tuple(map(repr, [*(-one for one in doubles), 0.0, *reversed(doubles)])), same=zeros)
    floats = [3.4028234663852886e38, 16777218.0, 16777216.0, 1.0000001192092896, 1.0]
    floats += [0.10000000149011612, 0.09999999403953552, 1.401298464324817e-45]
    yield KeyCase("FLOAT", tuple(map(repr, [*(-one for one in floats), 0.0, *reversed(floats)])), same=zeros)
    yield KeyCase("FLOAT(7,3)", ("-9999.9990234375", "0.0", "0.10000000149011612", "0.12600000202655792"))


def _labels() -> Iterator[KeyCase]:
    yield KeyCase("ENUM('a','b','c','d')", _texts(0, 1, 2, 3, 4))
    yield KeyCase("ENUM('','b')", _texts(0, 1, 2))
    yield KeyCase("ENUM('3','2','1','10')", _texts(0, 1, 2, 3, 4))
    yield KeyCase("ENUM('z','B','a') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", _texts(0, 1, 2, 3))
    yield KeyCase("ENUM('日','本') CHARACTER SET ucs2", _texts(0, 1, 2))
    many = ",".join(f"'{300 - number}'" for number in range(300))
    yield KeyCase(f"ENUM({many})", _texts(0, 1, 2, 255, 256, 299, 300))
    yield KeyCase("SET('z','y','x')", _texts(0, 1, 2, 3, 4, 5, 6, 7))
    yield KeyCase("SET('2','1','4')", _texts(0, 1, 2, 3, 4, 5, 6, 7))
    members = ",".join(f"'m{number}'" for number in range(1, 65))
    yield KeyCase(f"SET({members})", _texts(0, 1, 2, _ODD, _ODD + 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1))


def _temporals() -> Iterator[KeyCase]:
    odd = ("0000-00-00", "0001-01-01", "2006-00-00", "2006-02-00", "2006-02-28", "2006-02-31", "2006-03-01")
    yield KeyCase("DATE", (*odd, "9999-12-30", "9999-12-31"))
    for digits in (0, 6):
        tail, low, high = (
            ("." + "0" * digits, "." + "0" * (digits - 1) + "1", "." + "9" * digits) if digits else [""] * 3
        )
        moments = [f"{date} 00:00:00{tail}" for date in odd] + [f"2006-03-01 00:00:00{low}"]
        moments += [f"2006-03-01 23:59:59{tail}", f"2006-03-01 23:59:59{high}", f"9999-12-31 23:59:59{high}"]
        yield KeyCase(f"DATETIME({digits})", tuple(dict.fromkeys(moments)))
        stamps = ["0000-00-00 00:00:00" + tail, f"1970-01-01 00:00:01{tail}", f"1970-01-01 00:00:01{low}"]
        stamps += [f"2024-03-31 00:59:59{high}", f"2024-03-31 01:00:00{tail}", f"2024-03-31 02:30:00{tail}"]
        stamps += [f"2024-10-27 00:30:00{tail}", f"2024-10-27 01:30:00{tail}", f"2038-01-19 03:14:07{high}"]
        yield KeyCase(f"TIMESTAMP({digits})", tuple(dict.fromkeys(stamps)))
        times = [f"-838:59:59{tail}", f"-838:59:58{high}", f"-100:00:00{tail}", f"-00:00:01{tail}", f"-00:00:00{low}"]
        times = times if digits else [one for one in times if one != "-00:00:00"]
        times += [f"00:00:00{tail}", f"00:00:00{low}", f"00:00:01{tail}", f"23:59:59{high}", f"24:00:00{tail}"]
        times += [f"838:59:58{high}", f"838:59:59{tail}"]
        yield KeyCase(f"TIME({digits})", tuple(dict.fromkeys(times)))


def _bytes() -> Iterator[KeyCase]:
    fixed = ("\0\0\0\0", "\0\x01\0\0", " \0\0\0", "  \0\0", "'\\%\0", "A\0\0\0", "a\0\0\0", "a\0\0 ", "a   ")
    yield KeyCase("BINARY(4)", (*fixed, "\xff\xff\xff\xff"))
    yield KeyCase("VARBINARY(9)", ("", "\0", "\0\0", " ", "'\\%", "A", "a", "a\0", "a\0\0", "a ", "\xff"))


def _strings() -> Iterator[KeyCase]:
    """Of texts that a collation takes for one, one; where spaces at the end count, with and without them."""
    exact, padded = ("", "A", "B", "a", "aa", "b", "É", "é", "€"), (("a", "a "), ("", "  "))
    yield _text("VARCHAR(9) utf8mb4_bin", exact, same=padded)
    yield _text("CHAR(9) utf8mb3_bin", exact, same=padded)
    yield _text("VARCHAR(9) ascii_bin", ("", "'\\%", "A", "B", "a", "aa", "b"), same=padded)
    folded, alike = ("", "1", "10", "2", "a", "AA", "b", "E", "F"), (*padded, ("a", "A"), ("AA", "aá "))
    yield _text("VARCHAR(9) utf8mb4_general_ci", folded, same=alike)
    yield _text("CHAR(9) utf8mb4_unicode_ci", folded, same=alike)
    yield _text("VARCHAR(9) utf8mb3_general_ci", folded, same=alike)
    yield _text("VARCHAR(9) ascii_general_ci", ("", "1", "10", "1e1", "2", "a", "aa", "B"), same=(("a", "A "),))
    swedish = ("", "1", "10", "A", "aa", "b", "\xe9", "f", "\xe5")
    yield _text("VARCHAR(9) latin1_swedish_ci", swedish, same=(("A", "a "), ("\xe9", "E")))
    yield _text("CHAR(9) latin1_bin", ("", "A", "B", "a", "aa", "b", "\xc9", "\xe9"), same=padded)
    yield _text("VARCHAR(9) gbk_chinese_ci", ("", "1", "A", "b", "\xb0\xa2", "\xb0\xa1"), same=(("A", "a "),))
    yield _text("VARCHAR(9) ucs2_general_ci", ("", "\0A", "\0b", "\x20\xac"), same=(("\0A", "\0a\0 "),))
    nopad = ("", " ", "a", "a ", "a b", "b", "b ")
    cased = ("", " ", "a", "A", "á", "Á", "a ", "aa")
    binary = ("", " ", "A", "a", "a ", "é")
    yield _text("VARCHAR(9) utf8mb4_0900_ai_ci", nopad, ("mysql",), (("a", "Á"),))
    yield _text("VARCHAR(9) utf8mb4_0900_as_cs", cased, ("mysql",))
    yield _text("VARCHAR(9) utf8mb4_0900_bin", binary, ("mysql",))
    yield _text("VARCHAR(9) utf8mb4_nopad_bin", binary, ("mariadb",))
    yield _text("VARCHAR(9) utf8mb4_uca1400_ai_ci", folded, ("mariadb",), alike)
    yield _text("VARCHAR(9) utf8mb4_uca1400_nopad_as_cs", cased, ("mariadb",))
    yield _text("VARCHAR(9) latin1_nopad_bin", ("", " ", "A", "a", "a ", "\xe9"), ("mariadb",))


def _text(
    type_: str, texts: tuple[str, ...], flavours: tuple[str, ...] = BOTH, same: tuple[tuple[str, str], ...] = ()
) -> KeyCase:
    length, collation = type_.split()
    definition = f"{length} CHARACTER SET {collation.split('_')[0]} COLLATE {collation}"
    return KeyCase(definition, texts, flavours, same)


def _of_mariadb() -> Iterator[KeyCase]:
    only = ("mariadb",)
    uuids = ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001")
    yield KeyCase(
        "UUID", (*uuids, "123e4567-e89b-42d3-a456-426655440000", "ffffffff-ffff-ffff-ffff-ffffffffffff"), only
    )
    yield KeyCase("INET4", ("0.0.0.1", "0.0.0.2", "9.255.255.255", "10.0.0.0", "255.255.255.255"), only)
    yield KeyCase("INET6", ("::", "::1", "::ffff:9.0.0.1", "2001:db8::9", "2001:db8::10", "ffff::"), only)


CASES = (
    *_integers(),
    *_decimals(),
    *_floats(),
    *_labels(),
    *_temporals(),
    *_bytes(),
    *_strings(),
    *_of_mariadb(),
)
