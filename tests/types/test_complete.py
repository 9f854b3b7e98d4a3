"""The matrix cannot lose a type unseen: all that the catalog knows, and all that was asked for, has cases."""

from __future__ import annotations

import re

import pytest

from migrate.mysql import catalog
from tests.types.case import BOTH, MARIADB, MYSQL
from tests.types.matrix import LABELS, cases_of

_ONE_FLAVOUR = {"uuid": MARIADB, "inet4": MARIADB, "inet6": MARIADB, "vector": MYSQL}
_SAME = {"geomcollection": "geometrycollection"}  # as MySQL's catalog calls it
_INTEGERS = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")
_LISTED = {
    *_INTEGERS,
    *(f"{name} UNSIGNED" for name in _INTEGERS),
    "DECIMAL(65,30)", "FLOAT", "DOUBLE", "DATE", "YEAR", "ENUM", "JSON", "GEOMETRY",
    *(f"BIT({bits})" for bits in range(1, 65)),
    *(f"{name}({digits})" for name in ("DATETIME", "TIMESTAMP", "TIME") for digits in range(7)),
    "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "BINARY(5)", "VARBINARY(255)",
    "SET not in the order of its definition",
}  # fmt: skip
_LISTED_OF = {"mariadb": {"UUID", "INET6", "INET4"}, "mysql": {"VECTOR(3)"}}
_CHARSETS = ("utf8mb4", "utf8mb3", "latin1", "gbk", "sjis")


def known() -> set[str]:
    """Every name of a column type that a table may have."""
    return {*catalog._KINDS, *catalog._TEXT_TYPES, *catalog._GEOMETRY_TYPES}


@pytest.mark.parametrize("flavour", BOTH)
def test_every_type_that_the_catalog_knows_has_cases(flavour: str) -> None:
    words = {re.split(r"\W", case.type.lower())[0] for case in cases_of(flavour)}
    wanted = {_SAME.get(name, name) for name in known() if flavour in _ONE_FLAVOUR.get(name, BOTH)}
    assert wanted - words == set()


@pytest.mark.parametrize("flavour", BOTH)
def test_every_type_that_was_asked_for_has_cases(flavour: str) -> None:
    names = {case.name.split(":")[0] for case in cases_of(flavour)}
    assert (_LISTED | _LISTED_OF[flavour]) - names == set()


@pytest.mark.parametrize("flavour", BOTH)
@pytest.mark.parametrize("charset", _CHARSETS)
def test_every_kind_of_text_has_cases_in_every_character_set(flavour: str, charset: str) -> None:
    inside = f" CHARACTER SET {charset}"
    types = {case.type.split("(")[0].split(" ")[0] for case in cases_of(flavour) if inside in case.type}
    assert types >= {"CHAR", "VARCHAR", "TEXT"}


@pytest.mark.parametrize("flavour", BOTH)
def test_every_label_is_used_and_every_case_has_values(flavour: str) -> None:
    cases = cases_of(flavour)
    assert {value.label for case in cases for value in case.labelled} == set(LABELS) - {"null"}
    assert [case.name for case in cases if not case.labelled] == []
    assert len({case.name for case in cases}) == len(cases)
