"""The numbers of java.sql.Types by which Canal names columns' types in its messages (`sqlType`).

Canal takes them from the binlog's type, then from the value: `RowsLogBuffer.mysqlToJavaType` and
`LogEventConvert.parseOneColumn` of its source. A message of ours has one number for a column, whatever its values are.
"""

from __future__ import annotations

_BIT, _TINYINT, _BIGINT, _CHAR, _DECIMAL, _INTEGER, _SMALLINT, _REAL, _DOUBLE = -7, -6, -5, 1, 3, 4, 5, 7, 8
_VARCHAR, _DATE, _TIME, _TIMESTAMP, _OTHER, _BLOB, _CLOB = 12, 91, 92, 93, 1111, 2004, 2005

_OF = {
    **dict.fromkeys(("int", "mediumint"), _INTEGER),
    **{"tinyint": _TINYINT, "smallint": _SMALLINT, "bigint": _BIGINT, "decimal": _DECIMAL},
    **{"float": _REAL, "double": _DOUBLE, "bit": _BIT, "enum": _INTEGER, "set": _BIT},
    **{"date": _DATE, "time": _TIME, "datetime": _TIMESTAMP, "timestamp": _TIMESTAMP, "year": _VARCHAR},
    **{"char": _CHAR, "varchar": _VARCHAR, "json": _VARCHAR},
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), _CLOB),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _BLOB),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"), _BLOB),
    **dict.fromkeys(("multipolygon", "geometrycollection", "geomcollection"), _BLOB),
}
_UNSIGNED = {"tinyint": _SMALLINT, "smallint": _INTEGER, "int": _BIGINT, "bigint": _DECIMAL}


def jdbc_type(column_type: str) -> int:
    """Of a COLUMN_TYPE, such as `int(10) unsigned`.

    An unsigned integer has the type that holds its largest value, which Canal gives to values above the signed range
    alone. Types that Canal does not know are OTHER.
    """
    before, _, rest = column_type.lower().partition("(")
    words = (before + " " + rest.rpartition(")")[2]).split()
    name = words[0] if words else ""
    found = _UNSIGNED.get(name) if "unsigned" in words else None
    return found or _OF.get(name, _OTHER)
