"""Numbers, dates and times, ENUM and SET."""

from __future__ import annotations

from collections.abc import Iterator

from tests.types.case import AS_DOUBLE, MARIADB, Case, index_case, number_case, repr_of_double, values


def integers() -> Iterator[Case]:
    for type_, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)):
        half, full = 1 << bits - 1, 1 << bits
        yield number_case(type_, -half, half - 1, 1 - half, -128, -1, 1, 127)
        yield number_case(f"{type_} UNSIGNED", 0, full - 1, 1, 127, 128, 255, half - 1, half)
    yield number_case("BOOL", 0, 1)
    yield number_case("INT(7) ZEROFILL", 0, 4294967295, 42)


def decimals() -> Iterator[Case]:
    shapes = [(1, 0), (1, 1), (5, 5), (9, 0), (9, 9), (10, 0), (12, 2), (14, 6), (18, 9), (20, 4), (30, 30)]
    shapes += [(38, 19), (65, 0), (65, 30)]
    for precision, scale in shapes:
        whole, tail = "9" * (precision - scale) or "0", "." + "9" * scale if scale else ""
        odd = ["1", "-1"] if precision > scale else []
        odd += ["0.1", "-0.1", "0." + "0" * (scale - 1) + "1"] if scale else []
        name = f"DECIMAL({precision},{scale})"
        given = values(*odd, minimum=f"-{whole}{tail}", maximum=f"{whole}{tail}", zero="0")
        yield Case(name, name, given)
    given = values("0.001", minimum="0", maximum="9999999.999", zero="0")
    yield Case("DECIMAL UNSIGNED", "DECIMAL(10,3) UNSIGNED", given)
    given = values("0.05", minimum="0", maximum="99999.99", zero="0")
    yield Case("DECIMAL ZEROFILL", "DECIMAL(7,2) ZEROFILL", given, "CAST({0} + 0 AS CHAR)")
    given = values("-0.001", minimum="-999.99", maximum="999.99", zero="'-0'")
    yield Case("DECIMAL with a fraction rounded to zero", "DECIMAL(5,2)", given)
    given = values("0." + "1" * 38, minimum="-0." + "9" * 38, maximum="0." + "9" * 38, zero="0")
    yield Case("DECIMAL(38,38)", "DECIMAL(38,38)", given, flavours=MARIADB)


def floats() -> Iterator[Case]:
    doubles = "1 -1 0.1 1e15 1e16 123456789.125 1e-5 5e-324 -5e-324 2.2250738585072014e-308 9007199254740993e0"
    floats = "1 -1 0.1 1.1 16777217 1.1754944e-38 1e-45 -1e-45 123456.789"
    given = values(
        *doubles.split(), "1e0/3", minimum="-1.7976931348623157e308", maximum="1.7976931348623157e308",
        zero=("0", "-0e0", "-1e0 * 0e0"),
    )  # fmt: skip
    yield Case("DOUBLE", "DOUBLE", given, "{0}", repr_of_double, exact=AS_DOUBLE)
    given = values(*floats.split(), minimum="-3.4028234e38", maximum="3.4028234e38", zero=("0", "-0e0", "-1e0 * 0e0"))
    yield Case("FLOAT", "FLOAT", given, "{0} * 1e0", repr_of_double, exact=AS_DOUBLE)
    given = values("1.005", minimum="-99999999.99", maximum="99999999.99", zero="0")
    yield Case("DOUBLE(10,2)", "DOUBLE(10,2)", given, "{0} * 1e0", repr_of_double, exact=AS_DOUBLE)
    given = values("0.125", minimum="-9999.999", maximum="9999.999", zero="0")
    yield Case("FLOAT(7,3)", "FLOAT(7,3)", given, "{0} * 1e0", repr_of_double, exact=AS_DOUBLE)
    given = values("0.1", minimum="0", maximum="3.4028234e38", zero="0")
    yield Case("FLOAT UNSIGNED", "FLOAT UNSIGNED", given, "{0} * 1e0", repr_of_double, exact=AS_DOUBLE)
    given = values("0.1", minimum="0", maximum="1.7976931348623157e308", zero="0")
    yield Case("DOUBLE UNSIGNED", "DOUBLE UNSIGNED", given, "{0} * 1e0", repr_of_double, exact=AS_DOUBLE)
    given = values("42.5", minimum="0", maximum="3.4028234e38", zero="0")
    yield Case("FLOAT ZEROFILL", "FLOAT ZEROFILL", given, "{0} * 1e0", repr_of_double, exact=AS_DOUBLE)
    yield Case("DOUBLE ZEROFILL", "DOUBLE ZEROFILL", given, "{0} * 1e0", repr_of_double, exact=AS_DOUBLE)


def bits() -> Iterator[Case]:
    for bits in range(1, 65):
        given = values(str(1 << bits - 1), minimum="0", maximum=str((1 << bits) - 1), zero="0")
        yield index_case(f"BIT({bits})", f"BIT({bits})", given)


def temporals() -> Iterator[Case]:
    odd = ("'2006-02-15'", "'2006-00-00'", "'2006-02-00'", "'2006-02-31'", "'1000-01-01'")
    yield Case("DATE", "DATE", values(*odd, minimum="'0001-01-01'", maximum="'9999-12-31'", zero="'0000-00-00'"))
    given = values("2000", minimum="1901", maximum="2155", zero="0")
    yield Case("YEAR", "YEAR", given, "LPAD({0}, 4, '0')")
    for digits in range(7):
        tail, half = ("." + "987654"[:digits], "." + "000050"[:digits]) if digits else ("", "")
        ends = "." + "9" * digits if digits else ""
        of = f"({digits})"
        moments = [f"{date[:-1]} 00:00:00'" for date in odd]
        moments += [f"'2006-02-15 04:34:33{tail}'", f"'2006-02-00 23:00:00{half}'"]
        lowest, highest, zero = "'0001-01-01 00:00:00'", f"'9999-12-31 23:59:59{ends}'", "'0000-00-00 00:00:00'"
        given = values(*moments, minimum=lowest, maximum=highest, zero=zero)
        yield Case("DATETIME" + of, "DATETIME" + of, given)
        stamps = [f"'1970-01-01 00:00:01{half}'", "'2000-01-01 00:00:00'", f"'2024-02-29 23:59:59{tail}'"]
        stamps += ["'2024-03-31 01:30:00'", "'2024-10-27 01:30:00'"]  # where Europe's clocks change
        lowest, highest = "'1970-01-01 00:00:01'", f"'2038-01-19 03:14:07{ends}'"
        given = values(*stamps, minimum=lowest, maximum=highest, zero="0")
        exact = "CONCAT({0}, ' ', UNIX_TIMESTAMP({0}))"
        yield Case("TIMESTAMP" + of, f"TIMESTAMP{of} NULL", given, exact=exact)
        times = [f"'-00:00:00{tail}'", f"'00:00:00{half}'", f"'-00:00:00{half}'", f"'-12:34:56{tail}'"]
        times += [f"'100:00:00{tail}'", "'-00:00:01'", f"'-838:59:58{ends}'"]
        yield Case("TIME" + of, "TIME" + of, values(*times, minimum="'-838:59:59'", maximum="'838:59:59'", zero="0"))


def enums_and_sets() -> Iterator[Case]:
    def members(count: int) -> str:
        return ",".join(f"'m{number}'" for number in range(1, count + 1))

    index_0 = "'not a member'"
    given = values(minimum="'a'", maximum="'c'", zero=index_0, empty="''")
    yield index_case("ENUM", "ENUM('a','b','c')", given)
    given = values(minimum="''", maximum="'b'", zero=index_0, empty="''")
    yield index_case("ENUM with an empty member", "ENUM('','b')", given)
    yield index_case("ENUM of 255", f"ENUM({members(255)})", values(minimum="'m1'", maximum="'m255'", zero=index_0))
    given = values("'m255'", minimum="'m1'", maximum="'m256'", zero=index_0)
    yield index_case("ENUM of 256", f"ENUM({members(256)})", given)
    given = values("'m700'", minimum="'m1'", maximum="'m3000'", zero=index_0)
    yield index_case("ENUM of 3000", f"ENUM({members(3000)})", given)
    for charset in ("gbk", "ucs2", "sjis"):
        given = values(minimum="'日'", maximum="'本'", zero=index_0)
        yield index_case(f"ENUM in {charset}", f"ENUM('日','本') CHARACTER SET {charset}", given)
    for count in (1, 7, 8, 9, 16, 17, 24, 25, 32, 33, 63, 64):
        given = values(f"'m1,m{count}'", minimum="'m1'", maximum=str((1 << count) - 1), zero="0", empty="''")
        yield index_case(f"SET of {count}", f"SET({members(count)})", given)
    given = values("'m,z'", "'a,z'", minimum="'z'", maximum="'m,a,z'", zero="0", empty="''")
    yield index_case("SET not in the order of its definition", "SET('z','a','m') CHARACTER SET latin1", given)
