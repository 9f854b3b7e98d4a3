"""Which unique keys of a definition may refuse rows that another definition's take. No server needed."""

from __future__ import annotations

import pytest

from migrate.mysql.key_parts import only_of, unique_keys

CREATE = (
    "CREATE TABLE `t` (\n  `a` int NOT NULL,\n  `b` varchar(9) COMMENT 'UNIQUE KEY `x` (`b`)',\n{}\n) ENGINE=InnoDB"
)


def create(*keys: str) -> str:
    return CREATE.format(",\n".join(f"  {key}" for key in ("PRIMARY KEY (`a`)", *keys)))


def test_parts_are_read_to_the_end_of_their_list() -> None:
    listed = "`b`(3) DESC,((`a` + 1)),(concat(`b`,_utf8mb4')``,'))"
    found = unique_keys(create(f"UNIQUE KEY `u ``(`` x` ({listed}) USING BTREE COMMENT '('", "KEY `k` (`b`(2))"))
    assert found == {
        "`a`": {"`a`": 1 << 32},
        listed: {"`b`": 3, "((`a` + 1))": 1 << 32, "(concat(`b`,_utf8mb4')``,'))": 1 << 32},
    }


@pytest.mark.parametrize(
    ("target", "source", "stricter"),
    [
        ("`b`(3)", "`b`(3)", False),
        ("`b`(3)", "`b`(4)", True),
        ("`b`(4)", "`b`(3)", False),
        ("`b`", "`b`(3)", False),
        ("`b`(3)", "`b`", True),
        ("`b`(3),`c`", "`b`(3)", False),
        ("`c`(3)", "`b`(3)", True),
        ("((`a` + 1))", "((`a` + 1)) DESC", False),
        ("((`a` + 2))", "((`a` + 1))", True),
        ("((`a` + 2)),`a`", "((`a` + 1))", False),
    ],
)
def test_a_key_is_stricter_where_no_key_of_the_other_tells_rows_apart_by_less(
    target: str, source: str, stricter: bool
) -> None:
    one, other = (create(f"UNIQUE KEY `{name}` ({listed})") for name, listed in (("x", target), ("y", source)))
    assert only_of(one, other) == ([target] if stricter else [])
