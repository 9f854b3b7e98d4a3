"""Geometries, JSON, vectors, and what only MariaDB has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.types.case import MARIADB, MYSQL, Case, bytes_case, full, text_case, values

_MOMENT = "'2020-01-01 10:00:00.12'"
_EVERY = (
    "COALESCE((SELECT GROUP_CONCAT(CONCAT(JSON_TYPE(v), '=', v) ORDER BY n) FROM JSON_TABLE({{0}}, '{}'"
    " COLUMNS (n FOR ORDINALITY, v JSON PATH '$')) AS w), '')"
)
JSON_EXACT = f"CONCAT({{0}}, {', '.join(_EVERY.format(path) for path in ('$', '$**.*', '$**[*]'))})"
"""A document's text, and type and text of every value inside."""


def geometries() -> Iterator[Case]:
    shapes = {
        "POINT": ["POINT(1 -2.5)", "POINT(0 0)"],
        "LINESTRING": ["LINESTRING(0 0,1 1,2 2)"],
        "POLYGON": ["POLYGON((0 0,10 0,10 10,0 10,0 0),(5 5,7 5,7 7,5 7,5 5))"],
        "MULTIPOINT": ["MULTIPOINT(1 1,2 2)"],
        "MULTILINESTRING": ["MULTILINESTRING((0 0,1 1),(2 2,3 3))"],
        "MULTIPOLYGON": ["MULTIPOLYGON(((0 0,1 0,1 1,0 0)))"],
        "GEOMETRYCOLLECTION": ["GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))"],
    }
    for type_, texts in {**shapes, "GEOMETRY": [shape for listed in shapes.values() for shape in listed]}.items():
        odd = [f"ST_GeomFromText('{shape}', {srid})" for shape in texts for srid in (0, 4326, 3857)]
        if type_ == "POINT":
            odd += [f"ST_GeomFromText('POINT({x} {x})')" for x in ("1.7976931348623157e308", "-5e-324", "-0.0")]
        empty = "ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')" if type_.startswith("GEOM") else ()
        zero = "ST_GeomFromText('POINT(0 0)')" if type_ in ("POINT", "GEOMETRY") else ()
        yield bytes_case(type_, type_, values(*odd, empty=empty, zero=zero))
    given = values("ST_GeomFromText('POINT(48.1 11.6)', 4326)", zero="ST_GeomFromText('POINT(0 0)', 4326)")
    yield bytes_case("POINT SRID 4326", "POINT SRID 4326", given, MYSQL)
    nested = "ST_GeomFromText('GEOMETRYCOLLECTION(GEOMETRYCOLLECTION EMPTY,POINT(0 0))')"
    yield bytes_case("GEOMETRYCOLLECTION, nested", "GEOMETRYCOLLECTION", values(nested), MYSQL)


def of_mariadb() -> Iterator[Case]:
    long_text = ("'two  '", "REPEAT('äx', 100)", "REPEAT('y', 2000)")
    given = values(
        "'123e4567-e89b-12d3-a456-426655440000'", "'00112233-4455-6677-8899-aabbccddeeff'",
        "'017f22e2-79b0-7cc3-98c4-dc0c0c07398f'", minimum="'00000000-0000-0000-0000-000000000001'",
        maximum="'ffffffff-ffff-ffff-ffff-ffffffffffff'", zero="'00000000-0000-0000-0000-000000000000'",
    )  # fmt: skip
    yield Case("UUID", "UUID", given, flavours=MARIADB, exact="CONCAT(CAST({0} AS CHAR), HEX({0}))")
    inets = "::ffff:1.2.3.4,::1.2.3.4,1::,fe80::1,1:0:3:0:5:0:7:0,::1:0:0,2001:db8::ff00:42:8329"
    inets += ",0:1:2:3:4:5:6:7,1:2:3:4:5:6:7:0,::ffff:0:0,0:0:1::"
    highest = ":".join(["ffff"] * 8)
    given = values(*(f"'{text}'" for text in inets.split(",")), minimum="'::1'", maximum=f"'{highest}'", zero="'::'")
    yield Case("INET6", "INET6", given, flavours=MARIADB, exact="CONCAT(CAST({0} AS CHAR), HEX({0}))")
    given = values("'1.2.3.0'", minimum="'0.0.0.1'", maximum="'255.255.255.255'", zero="'0.0.0.0'")
    yield Case("INET4", "INET4", given, flavours=MARIADB, exact="CONCAT(CAST({0} AS CHAR), HEX({0}))")
    given = values(
        '\'{"b": 1,  "a":[1.10, 18446744073709551616]}\'', "'null'", zero="'0'", empty=("'{}'", "'[]'", "'\"\"'")
    )
    yield text_case("JSON", "JSON", given, MARIADB)
    texts = full(*long_text, full="'z'", length=4000)
    yield text_case("VARCHAR COMPRESSED", "VARCHAR(4000) COMPRESSED", texts, MARIADB)
    yield text_case("TEXT COMPRESSED", "TEXT COMPRESSED", texts, MARIADB)
    yield bytes_case("TEXT COMPRESSED in ucs2", "TEXT COMPRESSED CHARACTER SET ucs2", texts, MARIADB)
    yield bytes_case("VARBINARY COMPRESSED", "VARBINARY(4000) COMPRESSED", texts, MARIADB)
    yield bytes_case("LONGBLOB COMPRESSED", "LONGBLOB COMPRESSED", texts, MARIADB)


def json_case(name: str, *odd: str, **labelled: str | Iterable[str]) -> Case:
    return Case(name, "JSON", values(*odd, **labelled), flavours=MYSQL, exact=JSON_EXACT)


def of_mysql() -> Iterator[Case]:
    floats = "STRING_TO_VECTOR('[{}]')"
    given = values(
        floats.format("1,-2.5,3e10"), floats.format("-0.0"), floats.format("1.2e-38"),
        minimum=floats.format("-3.4028234e38"), maximum=floats.format("3.4028234e38"), zero=floats.format("0"),
    )  # fmt: skip
    yield bytes_case("VECTOR(3)", "VECTOR(3)", given, MYSQL)
    given = values(floats.format("1,2"), maximum="STRING_TO_VECTOR(CONCAT('[1', REPEAT(',2.5', 16382), ']'))")
    yield bytes_case("VECTOR(16383)", "VECTOR(16383)", given, MYSQL)
    yield json_case(
        "JSON: plain", "'{\"b\": 1,  \"a\": [1, {\"c\": [null, true, \"é🎁\"]}], \"quote\\\\\"key\": \"\\\\n\"}'",
        "'null'", "'[null]'", "'\"text\"'", "'[4294967295, 4294967296, 9223372036854775808, 0.1, 1e300, 1.0, -0.0]'",
        "'{\"\": {\"a.b\": {\"%s\": 1}}}'",
        minimum="'-9223372036854775808'", maximum="'18446744073709551615'", zero="'0'",
        empty=("'{}'", "'[]'", "'\"\"'"),
    )  # fmt: skip
    yield json_case(
        "JSON: DECIMAL inside", "JSON_OBJECT('price', 1.10, 'more', JSON_ARRAY(-0.50, 5, 1.1e0))", "CAST(1.50 AS JSON)",
        "JSON_OBJECT('a\"b\\\\', 1.0, 'ключ', 2.0, '%s', 3.0, '', 4.00)",
        minimum="JSON_ARRAY(-99999999999999999999999999999999999.999999999999999999999999999999)",
        maximum="JSON_ARRAY(99999999999999999999999999999999999.999999999999999999999999999999)",
        zero="JSON_ARRAY(0.00, CAST(0 AS DECIMAL(5,0)))",
    )  # fmt: skip
    yield json_case(
        "JSON: integers of SQL inside", "JSON_OBJECT('id', CAST(7 AS UNSIGNED), 'n', 5000000000, 'm', -5000000000)",
        "CAST(CAST(40000 AS UNSIGNED) AS JSON)", minimum="JSON_ARRAY(-9223372036854775808)",
        maximum="JSON_ARRAY(CAST(18446744073709551615 AS UNSIGNED), 9223372036854775807)",
        zero="JSON_ARRAY(CAST(0 AS UNSIGNED))",
    )  # fmt: skip
    column = "(SELECT v FROM JSON_TABLE(JSON_ARRAY({1}), '$[0]' COLUMNS (v {0} PATH '$')) AS w)"
    yield json_case(
        "JSON: dates and times inside", "JSON_OBJECT('d', DATE'2006-02-15', 's', '2006-02-15', 't', TIME'-12:34:56.5')",
        "JSON_ARRAY(TIMESTAMP'2006-02-15 04:34:33.000001', CAST('2006-02-31' AS DATE), CAST('2006-02-00' AS DATE))",
        "CAST(CAST('12:00:00' AS TIME) AS JSON)",
        f"JSON_ARRAY({column.format('TIMESTAMP(2)', _MOMENT)})",
        minimum="JSON_ARRAY(DATE'0001-01-01', TIME'-838:59:59', TIMESTAMP'0001-01-01 00:00:00')",
        maximum="JSON_ARRAY(DATE'9999-12-31', TIME'838:59:59', TIMESTAMP'9999-12-31 23:59:59.999999')",
        zero="JSON_ARRAY(CAST('0000-00-00' AS DATE), CAST(0 AS TIME), CAST('0000-00-00 00:00:00' AS DATETIME))",
    )  # fmt: skip
    yield json_case(
        "JSON: bytes inside", "JSON_OBJECT('b', x'00FF', 's', 'base64:type15:AP8=')", "CAST(x'612700' AS JSON)",
        f"JSON_ARRAY({column.format('BLOB', 'REPEAT(0xFF, 300)')})",
        f"JSON_ARRAY({column.format('BINARY(5)', '0x6100')})",
        f"JSON_ARRAY({column.format('BIT(9)', '257')}, {column.format('BIT(64)', '18446744073709551615')})",
        "JSON_ARRAY(IF(RAND() > 2, REPEAT(x'00', 70000), x'6162'), IF(RAND() > 2, REPEAT(x'00', 17000000), x'6162'))",
        maximum="JSON_ARRAY(REPEAT(x'FF', 65535))", zero="JSON_ARRAY(x'00')", empty="JSON_ARRAY(x'')",
    )  # fmt: skip
