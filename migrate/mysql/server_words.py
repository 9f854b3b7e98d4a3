"""What is shown of a server's error or warning: its number always, its words only where no row value can be in them.

The messages of the numbers in `_WITHOUT_VALUES` have names, settings and counts (MySQL "Server Error Message
Reference", MariaDB "Error Codes"). Of every other number its symbol is shown, and the column or key where the message
ends with one. Nothing is decided by it, and it may be in any language.
"""

from __future__ import annotations

import re

from pymysql.constants import ER

_WITHOUT_VALUES = frozenset(
    # accounts, privileges, connections
    {1040, 1041, 1042, 1043, 1044, 1045, 1047, 1053, 1077, 1079, 1080, 1129, 1130, 1141, 1142, 1143, 1147, 1152, 1184}
    | {1152, 1158, 1159, 1160, 1161, 1189, 1190, 1203, 1218, 1226, 1227, 1251, 1370, 1396, 1524, 1698, 1820, 1862, 1927}
    | {3118, 3159, 4031, 4151}
    | set(range(2000, 2100))
    # databases, tables, columns, keys, constraints
    | {1005, 1006, 1007, 1008, 1010, 1020, 1046, 1048, 1049, 1050, 1051, 1054, 1060, 1061, 1063, 1067, 1068, 1069, 1070}
    | {1071, 1072, 1073, 1074, 1075, 1090, 1091, 1101, 1103, 1109, 1113, 1115, 1118, 1136, 1138, 1146, 1162, 1163, 1164}
    | {1166, 1167, 1170, 1171, 1173, 1176, 1214, 1215, 1216, 1217, 1239, 1253, 1273, 1280, 1283, 1286, 1296, 1347, 1364}
    | {1419, 1442, 1449, 1451, 1452, 1478, 1481, 1493, 1503, 1505, 1553, 1566, 1688, 1709, 1713, 1750, 1785, 1813, 1814}
    | {1822, 1823, 1824, 1825, 1826, 1828, 1829, 1830, 1831, 1832, 1833, 1834, 1846, 1901, 1903, 1906, 3105, 3106, 3108}
    | {3567, 3568, 3719, 3730, 3734, 3750, 3757, 3758, 3769, 3770, 3772, 3778, 3780, 3819, 4025, 4078, 4079, 4161, 6125}
    # what a row's value is refused for, by its column only
    | {182, 1263, 1264, 1265, 1364, 1406, 1416, 3643, 3903, 3904, 3907}
    # locks, transactions, limits, replication, settings
    | {1021, 1030, 1036, 1037, 1038, 1099, 1100, 1104, 1114, 1135, 1148, 1153, 1175, 1180, 1192, 1193, 1194, 1195, 1197}
    | {1205, 1206, 1207, 1213, 1220, 1221, 1223, 1229, 1231, 1232, 1233, 1235, 1236, 1238, 1287, 1289, 1290, 1298, 1317}
    | {1372, 1373, 1381, 1568, 1579, 1592, 1598, 1614, 1621, 1651, 1665, 1681, 1773, 1774, 1776, 1777, 1778, 1779, 1781}
    | {1782, 1783, 1784, 1786, 1787, 1788, 1789, 1792, 1799, 1836, 1845, 1880, 1915, 1941, 1942, 1943, 1944, 1945, 1946}
    | {1947, 1948, 1949, 1950, 1951, 1952, 1953, 1969, 1976, 3024, 3065, 3090, 3098, 3100, 3101, 3135, 3170, 3546, 3572}
    | {3674, 3675, 3948, 3989, 4052, 4166}
)
_SYMBOLS = {number: name for name, number in vars(ER).items() if isinstance(number, int)} | {
    1064: "PARSE_ERROR",
    1525: "WRONG_VALUE",
    1526: "NO_PARTITION_FOR_GIVEN_VALUE",
    1062: "DUPLICATE_ENTRY",
    1586: "DUPLICATE_ENTRY",
    1644: "SIGNAL_EXCEPTION",
    1690: "DATA_OUT_OF_RANGE",
    1748: "ROW_DOES_NOT_MATCH_GIVEN_PARTITION_SET",
    1918: "BAD_DATA",
    3140: "INVALID_JSON_TEXT",
    3141: "INVALID_JSON_TEXT_IN_PARAM",
    3854: "CANNOT_CONVERT_STRING",
    3988: "IMPOSSIBLE_STRING_CONVERSION",
}
_NAME = r"(?:'[^']*'|(?:`[^`]*`\.?)+)"
_LAST = {
    **dict.fromkeys((1062, 1586), re.compile(rf"\b(key {_NAME})$")),
    **dict.fromkeys((1292, 1366), re.compile(rf"\b(column {_NAME}) at row \d+$")),
}
"""What the messages of these numbers end with, in English: a value stands before it, in quotes of its own."""


def shown(number: int, words: str) -> str:
    """One line about an error or a warning, without row values.

    Args: number: the server's. words: its message.
    """
    if number in _WITHOUT_VALUES:
        return f"{words} (error {number})"
    symbol = _SYMBOLS.get(number, "").lower().replace("_", " ")
    last = _LAST[number].search(words) if number in _LAST else None
    return f"error {number}{f' ({symbol})' if symbol else ''}{f' for {last[1]}' if last else ''}"
