"""A table with every type a source may hold, and rows with the values that are easily broken on the way."""

from __future__ import annotations

from sandbox.settings import Flavour

_COLUMNS = """
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY, i8 TINYINT, u64 BIGINT UNSIGNED, z INT(8) ZEROFILL,
  wide DECIMAL(65,30), money DECIMAL(10,2), f FLOAT, g DOUBLE, b BIT(17), e ENUM('a','b','ü') , s SET('x','y','z'),
  d DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, t TIME(2), y YEAR,
  c CHAR(10), v VARCHAR(50), ci VARCHAR(20) COLLATE utf8mb4_general_ci, l1 VARCHAR(20) CHARACTER SET latin1,
  u2 VARCHAR(20) CHARACTER SET ucs2, u3 VARCHAR(20) CHARACTER SET utf8mb3, long_text LONGTEXT,
  bi BINARY(5), vb VARBINARY(20), bl LONGBLOB, j JSON, ge GEOMETRY, po POINT,
  g1 INT GENERATED ALWAYS AS (id % 1000) STORED, g2 VARCHAR(60) GENERATED ALWAYS AS (CONCAT(v, '!')) VIRTUAL
"""
_MORE = {Flavour.MARIADB: ", uu UUID, i6 INET6", Flavour.MYSQL: ", ve VECTOR(3)"}

CREATE = {
    flavour: f"CREATE TABLE {{t}} ({_COLUMNS}{more}, KEY (v)) DEFAULT CHARSET=utf8mb4"
    for flavour, more in _MORE.items()
}

_NAMES = """
  id, i8, u64, z, wide, money, f, g, b, e, s, d, dt, ts, t, y, c, v, ci, l1, u2, u3, long_text, bi, vb, bl, j, ge, po
"""
_VALUES = """
  n * 3, n MOD 256 - 128, 18446744073709551615 - n, n, CONCAT(n, '.', LPAD(n, 30, '0')), n / 100 - 20, n / 7e0,
  n / 3e0 * POW(10, n MOD 300), n MOD 131072, 1 + n MOD 3, n MOD 8,
  '2000-01-01' + INTERVAL n DAY, '1999-12-31 23:59:59.999999' + INTERVAL n MICROSECOND,
  '2020-03-29 00:59:59.999' + INTERVAL n * 7 SECOND, SEC_TO_TIME(n * 100 - 200000), 1901 + n MOD 255,
  CONCAT('c ', n), CONCAT(IF(n MOD 2, '😀', 'ü'), n, '%s''\\\\'), CONCAT(IF(n MOD 2, 'É', 'e'), n),
  CONCAT('é', n), CONCAT('ü', n), CONCAT('€', n), REPEAT(CONCAT(n, 'x'), n MOD 50),
  UNHEX(LPAD(HEX(n), 6, '0')), UNHEX(CONCAT(LPAD(HEX(n), 6, '0'), '0000')), UNHEX(REPEAT('00FF27', n MOD 9)),
  JSON_OBJECT('n', n, 'tags', JSON_ARRAY(1.5, NULL, 'ü "x"')),
  ST_GeomFromText(CONCAT('LINESTRING(0 0,', n, ' 1.5)')), ST_GeomFromText(CONCAT('POINT(', n, ' -1)'))
"""

_EDGES = [
    # NULL in every column; empty texts against them
    "INSERT INTO {t} (id) VALUES (18446744073709551615)",
    "INSERT INTO {t} (id, c, v, long_text, vb, bl) VALUES (18446744073709551614, '', '', '', '', '')",
    # what only a laxer mode stored
    "INSERT INTO {t} (id, e, s, d, dt, ts, y, t) VALUES"
    " (18446744073709551613, 0, '', '0000-00-00', '2020-00-31 00:00:00', '0000-00-00 00:00:00', '0000', '-838:59:59')",
    "INSERT INTO {t} (id, i8, u64, wide, money, f, g, b) VALUES (18446744073709551612, -128, 0,"
    " -99999999999999999999999999999999999.999999999999999999999999999999, -0.01, 3.4028234e38,"
    " -1.7976931348623157e308, 0)",
    "INSERT INTO {t} (id, c, v, bi) VALUES (18446744073709551611, 'x  ', 'x  ', UNHEX('41'))",
    "INSERT INTO {t} (id, f, g) VALUES (18446744073709551610, 1.17549435e-38, 5e-324), (0, -0e0, -0e0)",
]


def fill(flavour: Flavour, rows: int) -> list[str]:
    """Statements that fill the table with `rows` rows and the edge cases."""
    numbers = f"WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < {rows})"
    mode = "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00'"
    limit = "max_recursive_iterations" if flavour is Flavour.MARIADB else "cte_max_recursion_depth"
    statements = [mode, f"SET SESSION {limit} = {rows + 1}"]
    statements.append(f"INSERT INTO {{t}} ({_NAMES}) {numbers} SELECT {_VALUES} FROM seq")
    statements += _EDGES
    if flavour is Flavour.MARIADB:
        statements.append(
            "UPDATE {t} SET uu = CONCAT(LPAD(HEX(id MOD 4294967296), 8, '0'), '-1111-2222-3333-444444444444'),"
            " i6 = CONCAT('2001:db8::', HEX(id MOD 65536)) WHERE id < 18446744073709551600"
        )
    else:
        statements.append(
            "UPDATE {t} SET ve = STRING_TO_VECTOR(CONCAT('[', id, ',1.5,-0.1]')) WHERE id < 18446744073709551600"
        )
    return statements
