"""Every column type of both flavours, with the values that are easily broken on the way.

Values are SQL literals, for a session with ``sql_mode='ALLOW_INVALID_DATES'`` (so that zero dates and index 0
of an ENUM can be stored) and ``time_zone='+00:00'``. NULL goes with every type and is not listed. ``select``
and ``read`` make canonical text of what the server itself prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

BOTH = ("mariadb", "mysql")
MARIADB = ("mariadb",)
MYSQL = ("mysql",)


@dataclass(frozen=True)
class Case:
    """A column type and values for it."""

    name: str
    type: str
    values: tuple[str, ...]
    select: str = "CAST({0} AS CHAR)"  # {0} is the quoted column
    read: Callable[[str], str] = str
    flavours: tuple[str, ...] = BOTH


def latin1_of_hex(text: str) -> str:
    return bytes.fromhex(text).decode("latin-1")


def repr_of_double(text: str) -> str:
    return repr(float(text))


def _number(type_: str, values: Iterable[object]) -> Case:
    return Case(type_, type_, tuple(map(str, values)), "CAST({0} + 0 AS CHAR)")


def _index(name: str, type_: str, *values: str) -> Case:
    """ENUM, SET and BIT. Not SET + 0, which is a double."""
    return Case(name, type_, values, "CAST(CAST({0} AS UNSIGNED) AS CHAR)")


def _bytes(name: str, type_: str, *values: str, flavours: tuple[str, ...] = BOTH) -> Case:
    return Case(name, type_, values, "HEX({0})", latin1_of_hex, flavours)


def _text(name: str, type_: str, *values: str, flavours: tuple[str, ...] = BOTH) -> Case:
    return Case(name, type_, values, "{0}", str, flavours)


def _integers() -> list[Case]:
    cases = []
    for type_, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)):
        half, full = 1 << bits - 1, 1 << bits
        cases.append(_number(type_, (-half, 1 - half, -128, -1, 0, 1, 127, half - 1)))
        cases.append(_number(f"{type_} UNSIGNED", (0, 1, 127, 128, 255, half - 1, half, full - 1)))
    cases.append(_number("BOOL", (0, 1)))
    cases.append(_number("INT(7) ZEROFILL", (0, 42, 4294967295)))
    return cases


def _decimals() -> list[Case]:
    shapes = [(1, 0), (1, 1), (5, 5), (9, 0), (9, 9), (10, 0), (12, 2), (14, 6), (18, 9), (20, 4), (30, 30)]
    shapes += [(38, 19), (65, 0), (65, 30)]
    cases = []
    for precision, scale in shapes:
        whole, tail = "9" * (precision - scale) or "0", "." + "9" * scale if scale else ""
        values = ["0", f"{whole}{tail}", f"-{whole}{tail}"]
        values += ["1", "-1"] if precision > scale else []
        values += ["0.1", "-0.1", "0." + "0" * (scale - 1) + "1"] if scale else []
        cases.append(Case(f"DECIMAL({precision},{scale})", f"DECIMAL({precision},{scale})", tuple(values)))
    cases.append(Case("DECIMAL UNSIGNED", "DECIMAL(10,3) UNSIGNED", ("0", "0.001", "9999999.999")))
    cases.append(Case("DECIMAL with a fraction rounded to zero", "DECIMAL(5,2)", ("-0.001", "'-0'")))
    return cases


def _floats() -> list[Case]:
    doubles = "0 1 -1 0.1 1e15 1e16 123456789.125 1e-5 1.7976931348623157e308 -1.7976931348623157e308 5e-324"
    floats = "0 1 -1 0.1 1.1 16777217 3.4028234e38 -3.4028234e38 1.1754944e-38 1e-45 123456.789"
    return [
        Case("DOUBLE", "DOUBLE", (*doubles.split(), "1e0/3", "-0e0"), "{0}", repr_of_double),
        Case("DOUBLE(10,2)", "DOUBLE(10,2)", ("1.005", "-99999999.99"), "{0} + 0e0", repr_of_double),
        Case("FLOAT", "FLOAT", tuple(floats.split()), "{0} + 0e0", repr_of_double),
        Case("FLOAT(7,3)", "FLOAT(7,3)", ("0.125", "9999.999"), "{0} + 0e0", repr_of_double),
        Case("FLOAT UNSIGNED", "FLOAT UNSIGNED", ("0", "0.1"), "{0} + 0e0", repr_of_double),
    ]


def _bits() -> list[Case]:
    return [
        _index(f"BIT({bits})", f"BIT({bits})", "0", "1", str((1 << bits) - 1), str(1 << bits - 1))
        for bits in (1, 2, 7, 8, 9, 15, 16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 56, 57, 63, 64)
    ]


def _temporals() -> list[Case]:
    dates = ("0000-00-00", "0001-01-01", "1000-01-01", "2006-02-15", "2006-00-00", "2006-02-00", "2006-02-31")
    cases = [
        Case("DATE", "DATE", (*(f"'{date}'" for date in dates), "'9999-12-31'")),
        Case("YEAR", "YEAR", ("0", "1901", "2000", "2155"), "LPAD({0}, 4, '0')"),
    ]
    for digits in range(7):
        tail, half = ("." + "987654"[:digits], "." + "000050"[:digits]) if digits else ("", "")
        ends = "." + "9" * digits if digits else ""
        of = f"({digits})"
        moments = [f"'{date} 00:00:00'" for date in dates]
        moments += [f"'2006-02-15 04:34:33{tail}'", f"'9999-12-31 23:59:59{ends}'", f"'2006-02-00 23:00:00{half}'"]
        cases.append(Case("DATETIME" + of, "DATETIME" + of, tuple(moments)))
        stamps = ["0", "'1970-01-01 00:00:01'", f"'1970-01-01 00:00:01{half}'", "'2000-01-01 00:00:00'"]
        stamps += [f"'2024-02-29 23:59:59{tail}'", f"'2038-01-19 03:14:07{ends}'"]
        cases.append(Case("TIMESTAMP" + of, f"TIMESTAMP{of} NULL", tuple(stamps)))
        times = ["0", "'-838:59:59'", "'838:59:59'", f"'-838:59:58{ends}'", f"'-00:00:00{tail}'"]
        times += [f"'00:00:00{half}'", f"'-00:00:00{half}'", f"'-12:34:56{tail}'", f"'100:00:00{tail}'", "'-00:00:01'"]
        cases.append(Case("TIME" + of, "TIME" + of, tuple(times)))
    return cases


def _enums_and_sets() -> list[Case]:
    def members(count: int) -> str:
        return ",".join(f"'m{number}'" for number in range(1, count + 1))

    cases = [
        _index("ENUM", "ENUM('a','b','c')", "'a'", "'c'", "'not a member'", "''"),
        _index("ENUM with an empty member", "ENUM('','b')", "''", "'b'", "'not a member'"),
        _index("ENUM of 255", f"ENUM({members(255)})", "'m1'", "'m255'"),
        _index("ENUM of 256", f"ENUM({members(256)})", "'m1'", "'m255'", "'m256'", "'not a member'"),
        _index("ENUM of 3000", f"ENUM({members(3000)})", "'m1'", "'m3000'"),
        _index("ENUM in gbk", "ENUM('中','文') CHARACTER SET gbk", "'中'", "'文'"),
    ]
    for count in (1, 7, 8, 9, 16, 17, 24, 25, 32, 33, 63, 64):
        both = f"'m1,m{count}'"
        values = ("''", "'m1'", both, str((1 << count) - 1))
        cases.append(_index(f"SET of {count}", f"SET({members(count)})", *values))
    cases.append(_index("SET not in the order of its definition", "SET('z','a','m') CHARACTER SET latin1", "'m,z'"))
    return cases


def _decoded_strings() -> list[Case]:
    plain = ("''", "'a'", "'two  '", "'0'", "'tab\\tquote''\"\\\\back\\nline'")
    wide = (*plain, "'äöü €'", "'中文'")
    emoji = (*wide, "'🎁'", "'a🎁'")
    cases = []
    for length in (1, 63, 64, 127, 128, 191, 192, 255):  # 252, 256, 508, 512, 764, 768, 1020 bytes
        values = tuple(value for value in emoji if length > 30)
        full = (f"REPEAT('🎁', {length})", f"REPEAT('x', {length})", "''")
        cases.append(_text(f"CHAR({length})", f"CHAR({length}) CHARACTER SET utf8mb4", *values, *full))
    for length in (85, 86, 255):
        values = (*wide, f"REPEAT('€', {length})")
        cases.append(_text(f"CHAR({length}) utf8mb3", f"CHAR({length}) CHARACTER SET utf8mb3", *values))
    cases.append(_text("CHAR(0)", "CHAR(0)", "''"))
    cases.append(_text("CHAR(255) ascii", "CHAR(255) CHARACTER SET ascii", *plain, "REPEAT('x', 255)"))
    for length, charset in ((255, "ascii"), (256, "ascii"), (63, "utf8mb4"), (64, "utf8mb4"), (85, "utf8mb3")):
        widest = {"ascii": "~", "utf8mb3": "€", "utf8mb4": "🎁"}[charset]
        values = (*plain, f"REPEAT('{widest}', {length})")
        name = f"VARCHAR({length}) {charset}"
        cases.append(_text(name, f"VARCHAR({length}) CHARACTER SET {charset}", *values))
    cases.append(_text("VARCHAR(16000)", "VARCHAR(16000) CHARACTER SET utf8mb4", *emoji, "REPEAT('🎁', 16000)"))
    cases.append(_text("VARCHAR in utf8mb4_bin", "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", *emoji))
    for type_, length in (("TINYTEXT", 63), ("TEXT", 16383), ("MEDIUMTEXT", 20000), ("LONGTEXT", 20000)):
        cases.append(_text(type_, f"{type_} CHARACTER SET utf8mb4", *emoji, f"REPEAT('🎁', {length})"))
    return cases


def _other_charsets() -> list[Case]:
    samples = {
        "latin1": "äöü €",
        "gbk": "中文",
        "gb2312": "中文",
        "gb18030": "中文🎁",
        "big5": "中文",
        "sjis": "日本ｱ",
        "cp932": "日本①",
        "ujis": "日本",
        "euckr": "한국",
        "koi8r": "привет",
        "cp1251": "привет",
        "ucs2": "中 文",
        "utf16": "中🎁",
        "utf16le": "中🎁",
        "utf32": "中🎁",
    }
    cases = []
    for charset, sample in samples.items():
        flavours = MYSQL if charset == "gb18030" else BOTH
        values = ("''", "'a'", "'two  '", f"CONVERT('{sample}' USING {charset})", f"REPEAT('{sample}', 20)")
        for type_ in ("CHAR(100)", "VARCHAR(100)", "TEXT"):
            name = f"{type_} {charset}"
            cases.append(_bytes(name, f"{type_} CHARACTER SET {charset}", *values, flavours=flavours))
    return cases


def _binaries() -> list[Case]:
    odd = ("''", "'a'", "'a  '", "0x6100", "0x612000", "0x00", "0x0061", "0xFF80", "0x20")
    cases = [_bytes("BINARY(0)", "BINARY(0)", "''"), _bytes("BINARY(1)", "BINARY(1)", "''", "'a'", "0x00", "0x20")]
    cases += [_bytes(f"BINARY({n})", f"BINARY({n})", *odd, f"REPEAT('x', {n})") for n in (5, 16, 255)]
    cases += [_bytes(f"VARBINARY({n})", f"VARBINARY({n})", *odd, f"REPEAT('x', {n})") for n in (5, 255, 256, 60000)]
    for type_, length in (("TINYBLOB", 255), ("BLOB", 65535), ("MEDIUMBLOB", 70000), ("LONGBLOB", 70000)):
        cases.append(_bytes(type_, type_, *odd, f"REPEAT(0x00FF, {length // 2})"))
    return cases


def _geometries() -> list[Case]:
    shapes = {
        "POINT": ["POINT(1 -2.5)", "POINT(0 0)"],
        "LINESTRING": ["LINESTRING(0 0,1 1,2 2)"],
        "POLYGON": ["POLYGON((0 0,10 0,10 10,0 10,0 0),(5 5,7 5,7 7,5 7,5 5))"],
        "MULTIPOINT": ["MULTIPOINT(1 1,2 2)"],
        "MULTILINESTRING": ["MULTILINESTRING((0 0,1 1),(2 2,3 3))"],
        "MULTIPOLYGON": ["MULTIPOLYGON(((0 0,1 0,1 1,0 0)))"],
        "GEOMETRYCOLLECTION": ["GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))"],
    }
    shapes["GEOMETRY"] = [shape for listed in shapes.values() for shape in listed]
    return [
        _bytes(type_, type_, *(f"ST_GeomFromText('{shape}', {srid})" for shape in texts for srid in (0, 4326)))
        for type_, texts in shapes.items()
    ]


def _of_one_flavour() -> list[Case]:
    long_text = ("''", "'a'", "REPEAT('äx', 100)", "REPEAT('y', 2000)", "'two  '")
    uuids = (
        "123e4567-e89b-12d3-a456-426655440000",
        "00112233-4455-6677-8899-aabbccddeeff",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    )
    inets = "::,::1,::ffff:1.2.3.4,::1.2.3.4,1::,fe80::1,1:0:3:0:5:0:7:0,::1:0:0,2001:db8::ff00:42:8329"
    inets += ",0:1:2:3:4:5:6:7,1:2:3:4:5:6:7:0,::ffff:0:0,0:0:1::"
    return [
        _bytes("VECTOR", "VECTOR(3)", "STRING_TO_VECTOR('[1,-2.5,3e10]')", "STRING_TO_VECTOR('[0]')", flavours=MYSQL),
        _bytes("VECTOR(16383)", "VECTOR(16383)", "STRING_TO_VECTOR('[1,2]')", flavours=MYSQL),
        Case("UUID", "UUID", tuple(f"'{uuid}'" for uuid in uuids), flavours=MARIADB),
        Case("INET6", "INET6", tuple(f"'{address}'" for address in inets.split(",")), flavours=MARIADB),
        Case("INET4", "INET4", ("'0.0.0.0'", "'1.2.3.0'", "'255.255.255.255'"), flavours=MARIADB),
        _text("JSON", "JSON", '\'{"b": 1,  "a":[]}\'', "'null'", flavours=MARIADB),
        _text("VARCHAR COMPRESSED", "VARCHAR(4000) COMPRESSED", *long_text, flavours=MARIADB),
        _text("TEXT COMPRESSED", "TEXT COMPRESSED", *long_text, flavours=MARIADB),
        _bytes("VARBINARY COMPRESSED", "VARBINARY(4000) COMPRESSED", *long_text, flavours=MARIADB),
        _bytes("LONGBLOB COMPRESSED", "LONGBLOB COMPRESSED", *long_text, flavours=MARIADB),
    ]


CASES: tuple[Case, ...] = (
    *_integers(),
    *_decimals(),
    *_floats(),
    *_bits(),
    *_temporals(),
    *_enums_and_sets(),
    *_decoded_strings(),
    *_other_charsets(),
    *_binaries(),
    *_geometries(),
    *_of_one_flavour(),
)


def cases_of(flavour: str) -> list[Case]:
    return [case for case in CASES if flavour in case.flavours]
