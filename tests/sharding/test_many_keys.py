"""100,000 keys that the real ShardingSphere-JDBC puts into H2 by a rule file are where our rule of that file puts them.

The vectors are chosen values, and many rules; these are values by chance, through the whole of the jar.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from migrate.sharding.rule import TableRule, build_rule
from migrate.sharding.shardingsphere import RuleFile
from sandbox.binaries import java, shardingsphere_classpath

FOLDER = Path(__file__).parent
EACH = 10_000
"""Keys of a table."""
LETTERS = "abcXYZ0189-_ .:äßИж中文字𝒳😀"
_FIRST = date(2024, 1, 1)


class Keys(NamedTuple):
    """`java` is the type that the application passes, `mysql` the column's, `h2` that of the column in H2."""

    java: str
    mysql: str
    h2: str
    make: Callable[[random.Random], str]


def _whole(low: int, high: int) -> Callable[[random.Random], str]:
    """Numbers of every length, as often as each other."""

    def make(chance: random.Random) -> str:
        near = chance.getrandbits(chance.randint(1, 64))
        return str(max(low, -near) if low < 0 and chance.random() < 0.5 else min(high, near))

    return make


def _text(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(0, 24)))


def _amount(chance: random.Random) -> str:
    return str(Decimal(chance.randint(-(10 ** chance.randint(1, 18)), 10 ** chance.randint(1, 18))).scaleb(-4))


def _moment(chance: random.Random) -> str:
    made = datetime(2024, 1, 1) + timedelta(milliseconds=chance.randrange(366 * 86_400_000 - 999))  # noqa: DTZ001
    return made.isoformat(" ", "milliseconds")


TABLES = {
    "integers": Keys("Integer", "int", "INT", _whole(-(2**31), 2**31 - 1)),
    "longs": Keys("Long", "bigint", "BIGINT", _whole(-(2**63), 2**63 - 1)),
    "naturals": Keys("BigInteger", "bigint unsigned", "DECIMAL(20)", _whole(0, 2**64 - 1)),
    "texts": Keys("String", "varchar(100)", "VARCHAR(100)", _text),
    "codes": Keys("String", "varchar(100)", "VARCHAR(100)", lambda chance: f"{_text(chance)}{chance.randrange(10)}"),
    "dates": Keys("LocalDate", "date", "DATE", lambda chance: str(_FIRST + timedelta(chance.randrange(366)))),
    "days": Keys("LocalDate", "date", "DATE", lambda chance: str(date.fromordinal(chance.randrange(1, 3_652_059)))),
    "moments": Keys("LocalDateTime", "datetime(3)", "TIMESTAMP(3)", _moment),
    "prices": Keys("BigDecimal", "decimal(22,4)", "DECIMAL(22, 4)", _amount),
    "amounts": Keys("BigDecimal", "decimal(22,4)", "DECIMAL(22, 4)", _amount),
}


def rule_of(table: str) -> TableRule:
    rules = RuleFile((FOLDER / "rules" / "many.yaml").read_text("utf-8"))
    spec = rules.spec(table, {"k": TABLES[table].java})
    return build_rule(spec, table, {"k": TABLES[table].mysql})


@pytest.mark.long
def test_100_000_keys_are_where_shardingsphere_puts_them(tmp_path: Path) -> None:
    chance = random.Random(22)  # noqa: S311 - the same keys each time
    keys = {table: [made.make(chance) for _ in range(EACH)] for table, made in TABLES.items()}
    asked, told = tmp_path / "keys", tmp_path / "places"
    lines = [f"{table}\t{TABLES[table].java}\t{TABLES[table].h2}\t{key}" for table in keys for key in keys[table]]
    asked.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    program = ["-XX:TieredStopAtLevel=1", "-Xmx768m", "-cp", shardingsphere_classpath(), "groovy.ui.GroovyMain"]
    files = [str(FOLDER / "places.groovy"), str(FOLDER / "rules" / "many.yaml"), str(asked), str(told)]
    done = subprocess.run([java(), *program, *files], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]

    theirs = iter(told.read_text("utf-8").splitlines())
    different = []
    for table, values in keys.items():
        rule = rule_of(table)
        ours = rule.route_many([values])
        assert len(set(ours)) == len(rule.places), f"{table}: keys reach every place"
        for value, place in zip(values, ours, strict=True):
            if (there := next(theirs)) != str(rule.places[place]):
                different.append((table, value, there, str(rule.places[place])))
    assert different == []
    assert next(theirs, None) is None
    assert len(lines) == 100_000
