"""Each kind of statement that `migrate ddl` runs, and what comes of it on both servers.

These are the cases of `test_kinds`, and the table of docs/ddl-kinds.md, which this module writes (`make ddl-kinds`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.settings import Flavour

MARIADB, MYSQL = Flavour.MARIADB, Flavour.MYSQL
PAGE = Path(__file__).resolve().parents[2] / "docs" / "ddl-kinds.md"
BEGINNING = "<!-- written by `make ddl-kinds` from tests/ddl/kinds.py -->\n"
BASE = (
    "CREATE TABLE orders (id BIGINT NOT NULL AUTO_INCREMENT, user_id INT NOT NULL, v VARCHAR(20) NOT NULL DEFAULT 'x',"
    " amount DECIMAL(10,2) DEFAULT NULL, body TEXT, status ENUM('new','paid') NOT NULL DEFAULT 'new', at DATETIME(3),"
    " twice BIGINT AS (user_id * 2) VIRTUAL, PRIMARY KEY (id), KEY by_user (user_id), KEY by_v (v),"
    " UNIQUE KEY u (v, id), CONSTRAINT positive CHECK (amount >= 0))"
    " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='c'"
)
PARENT = "CREATE TABLE users (id INT PRIMARY KEY)"
ROWS = (
    "INSERT INTO orders (user_id, v, amount, body, status, at) VALUES"
    " (1, 'a', 1.25, 'one', 'new', '2026-01-01 00:00:00.5'), (2, 'b', NULL, NULL, 'paid', NULL)"
)
_KEY = "PRIMARY KEY (id)"
_BY_RANGE = (
    BASE + " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN (2000))"
)
_BY_HASH = BASE + " PARTITION BY HASH (id) PARTITIONS 4"
_PLACE = BASE.replace(_KEY, f"place POINT NOT NULL DEFAULT (POINT(1, 2)), {_KEY}")
_SPATIAL = _PLACE.replace(_KEY, f"{_KEY}, SPATIAL KEY by_place (place)")
_HIDDEN = BASE.replace("body TEXT", "body TEXT INVISIBLE")
_TWO_KEYS = BASE.replace(_KEY, f"{_KEY}, KEY by_id (id)")
_CHILD = BASE.replace(_KEY, f"{_KEY}, CONSTRAINT of_user FOREIGN KEY (user_id) REFERENCES users (id)")
_UNCHECKED = BASE.replace("(amount >= 0)", "(amount >= 0) NOT ENFORCED")
_TIMES = BASE.replace(_KEY, f"x DATE NOT NULL DEFAULT '2020-01-01', y DATE NOT NULL DEFAULT '2020-02-01', {_KEY}")
_PERIOD = _TIMES.replace(_KEY, f"PERIOD FOR p (x, y), {_KEY}")
_VERSIONED = BASE + " WITH SYSTEM VERSIONING"
OF_ONE = {_UNCHECKED: MYSQL, _PERIOD: MARIADB, _VERSIONED: MARIADB}
"""Tables that one of the servers alone has."""

INSTANT, NOCOPY, INPLACE = "INSTANT", "NOCOPY, lock none", "INPLACE, lock none"
INPLACE_SHARED, COPY = "INPLACE, lock shared", "COPY, lock shared"
UNCHOSEN = "not chosen"
AT_ONCE = "at once"
NONE = ""
YES, NOTHING = "yes", "nothing to take back"
_OTHER = "no: the statement that would take it back leaves another definition"


@dataclass(frozen=True)
class Kind:
    """clauses: of ALTER TABLE orders, or a whole statement. mysql, mariadb: what each takes; NONE where
    it has no such clause.

    back: whether it is taken back; YES, NOTHING, or no with the reason. mariadb_back: there, where that is another.
    """

    clauses: str
    mysql: str
    mariadb: str
    back: str = YES
    base: str = BASE
    mariadb_back: str = ""

    def of(self, flavour: Flavour) -> str:
        return self.mysql if flavour is MYSQL else self.mariadb

    def taken_back(self, flavour: Flavour) -> str:
        return self.mariadb_back or self.back if flavour is MARIADB else self.back

    @property
    def statement(self) -> str:
        is_whole = "TABLE orders" in self.clauses or "ON orders" in self.clauses
        return self.clauses if is_whole else f"ALTER TABLE orders {self.clauses}"


def loses(what: str) -> str:
    return f"no: loses {what}"


KINDS = {
    "Columns": (
        Kind("ADD COLUMN n INT", INSTANT, INSTANT),
        Kind("ADD COLUMN n INT NOT NULL DEFAULT 7 FIRST", INSTANT, COPY),
        Kind("ADD COLUMN n INT AFTER v, ADD COLUMN m INT FIRST", INSTANT, COPY),
        Kind("ADD COLUMN (n INT, j JSON)", INSTANT, INSTANT),
        Kind("ADD COLUMN n INT DEFAULT 1 INVISIBLE", INSTANT, INSTANT),
        Kind("ADD COLUMN g INT AS (user_id + 1) STORED", COPY, COPY),
        Kind("ADD COLUMN g INT AS (user_id + 1) VIRTUAL", INSTANT, INSTANT),
        Kind("ADD COLUMN e VECTOR(3)", INSTANT, NONE),
        Kind("ADD COLUMN place POINT SRID 4326", INSTANT, NONE),
        Kind("ADD COLUMN place POINT REF_SYSTEM_ID=4326", NONE, INSTANT),
        Kind("ADD COLUMN IF NOT EXISTS n UUID", NONE, INSTANT),
        Kind("ADD COLUMN w TEXT COMPRESSED", NONE, INSTANT),
        Kind("DROP COLUMN amount, DROP CONSTRAINT positive", INSTANT, COPY, loses("the values of column amount")),
        Kind("DROP COLUMN body", INSTANT, INSTANT, loses("the values of column body")),
        Kind("DROP COLUMN body, ADD COLUMN body TEXT", INSTANT, COPY, loses("the values of column body")),
        Kind(
            "DROP COLUMN body, ADD COLUMN w VARCHAR(20) DEFAULT '(' COMMENT ')'",
            *(INSTANT, COPY, loses("the values of column body")),
        ),
        Kind("DROP COLUMN twice", INSTANT, INSTANT),
        Kind("RENAME COLUMN body TO words", INSTANT, INSTANT),
        Kind("CHANGE body words TEXT", INSTANT, INSTANT),
        Kind("CHANGE BODY Words MEDIUMTEXT", COPY, COPY),
        Kind("MODIFY v VARCHAR(30) NOT NULL DEFAULT 'x'", INPLACE, INSTANT),
        Kind("MODIFY v VARCHAR(10) NOT NULL DEFAULT 'x'", COPY, COPY, loses("values of column v")),
        Kind("MODIFY v VARCHAR(20) NOT NULL DEFAULT 'x' FIRST", INPLACE, INSTANT),
        Kind("MODIFY v VARCHAR(20) NULL", INPLACE, INPLACE),
        Kind("MODIFY v VARCHAR(20) AS (CONCAT('n', user_id)) STORED", COPY, COPY, loses("the values of column v")),
        Kind("MODIFY id BIGINT NOT NULL", COPY, INSTANT),
        Kind("MODIFY user_id BIGINT NOT NULL", COPY, COPY),
        Kind("MODIFY user_id SMALLINT NOT NULL", COPY, COPY, loses("values of column user_id")),
        Kind("MODIFY user_id INT UNSIGNED NOT NULL", COPY, COPY, loses("values of column user_id")),
        Kind("MODIFY amount DECIMAL(12,3)", COPY, COPY),
        Kind("MODIFY amount DECIMAL(12,1)", COPY, COPY, loses("values of column amount")),
        Kind("MODIFY at DATETIME(6)", COPY, COPY),
        Kind("MODIFY at DATETIME", COPY, COPY, loses("values of column at")),
        Kind("MODIFY at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)", INSTANT, INSTANT),
        Kind("MODIFY status ENUM('new','paid','sent') NOT NULL DEFAULT 'new'", INSTANT, INSTANT),
        Kind("MODIFY status ENUM('paid','new') NOT NULL DEFAULT 'new'", COPY, COPY, loses("values of column status")),
        Kind("MODIFY twice BIGINT AS (user_id * 3) VIRTUAL", COPY, INSTANT),
        Kind("MODIFY body TEXT COMPRESSED", NONE, COPY),
        Kind("MODIFY body TEXT COMMENT 'said; it''s %s'", INSTANT, INSTANT),
        Kind("MODIFY body TEXT INVISIBLE", INSTANT, INSTANT),
        Kind("MODIFY body TEXT", INSTANT, INSTANT, base=_HIDDEN),
        Kind("ALTER COLUMN body SET INVISIBLE", INSTANT, NONE),
        Kind("ALTER COLUMN body SET VISIBLE", INSTANT, NONE, base=_HIDDEN),
        Kind("ALTER COLUMN v SET DEFAULT 'y'", INSTANT, INSTANT),
        Kind("ALTER COLUMN v SET DEFAULT (CONCAT('a', 'b'))", INSTANT, INSTANT),
        Kind("ALTER COLUMN v DROP DEFAULT", INSTANT, INSTANT),
    ),
    "Keys": (
        Kind("ADD KEY by_status (status, at)", INPLACE, NOCOPY),
        Kind("ADD KEY down (at DESC, v(3))", INPLACE, NOCOPY),
        Kind("ADD KEY lowered ((LOWER(v)))", INPLACE_SHARED, NONE),
        Kind("ADD KEY by_at (at) INVISIBLE", INPLACE, NONE),
        Kind("ADD KEY by_at (at) IGNORED", NONE, NOCOPY),
        Kind("ADD UNIQUE KEY one (user_id)", INPLACE, NOCOPY),
        Kind("ADD UNIQUE KEY words (body)", NONE, COPY),
        Kind("ADD FULLTEXT KEY words (body)", INPLACE_SHARED, INPLACE_SHARED),
        Kind("ADD SPATIAL KEY by_place (place)", INPLACE_SHARED, INPLACE_SHARED, base=_PLACE),
        Kind("DROP KEY by_place", INPLACE, NOCOPY, base=_SPATIAL),
        Kind("DROP KEY by_v", INPLACE, NOCOPY),
        Kind("DROP KEY u", INPLACE, NOCOPY),
        Kind("RENAME KEY by_v TO of_v", INPLACE, INSTANT),
        Kind("RENAME INDEX by_v TO of_v, RENAME COLUMN body TO words", INPLACE, INSTANT),
        Kind("ALTER INDEX by_v INVISIBLE", INPLACE, NONE),
        Kind("ALTER INDEX by_v IGNORED", NONE, INSTANT),
        Kind("DROP PRIMARY KEY, ADD PRIMARY KEY (id, user_id)", INPLACE, INPLACE),
        Kind("DROP PRIMARY KEY", COPY, INPLACE, base=_TWO_KEYS),
        Kind("ORDER BY user_id DESC, v", COPY, INSTANT, NOTHING),
        Kind("DISABLE KEYS", INSTANT, INSTANT, NOTHING),
        Kind("CREATE INDEX by_at ON orders (at)", INPLACE, NOCOPY),
        Kind("CREATE UNIQUE INDEX one ON orders (user_id)", INPLACE, NOCOPY),
        Kind("CREATE FULLTEXT INDEX words ON orders (body)", INPLACE_SHARED, INPLACE_SHARED),
        Kind("CREATE SPATIAL INDEX by_place ON orders (place)", INPLACE_SHARED, INPLACE_SHARED, base=_PLACE),
        Kind("DROP INDEX by_v ON orders", INPLACE, NOCOPY),
        Kind("DROP INDEX IF EXISTS by_v ON orders", NONE, NOCOPY),
        Kind("DROP INDEX `PRIMARY` ON orders", COPY, INPLACE, base=_TWO_KEYS),
    ),
    "Constraints": (
        Kind("ADD CONSTRAINT long_enough CHECK (char_length(v) > 0)", COPY, COPY),
        Kind("ADD CHECK (user_id > 0)", COPY, COPY),
        Kind("ADD COLUMN c TEXT CHECK (c <> '')", COPY, INSTANT),
        Kind("ADD CONSTRAINT small CHECK (amount < 0) NOT ENFORCED", INSTANT, NONE),
        Kind("ALTER CHECK positive NOT ENFORCED", INSTANT, NONE),
        Kind("ALTER CONSTRAINT positive ENFORCED", COPY, NONE, base=_UNCHECKED),
        Kind("DROP CHECK positive", INSTANT, NONE, base=_UNCHECKED),
        Kind("DROP CONSTRAINT positive", INSTANT, INSTANT),
        Kind("DROP FOREIGN KEY of_user", INPLACE, INSTANT, base=_CHILD),
        Kind("DROP FOREIGN KEY of_user, DROP KEY by_user", INPLACE, NOCOPY, base=_CHILD),
    ),
    "The whole table": (
        Kind("COMMENT = 'another'", INPLACE, INSTANT),
        Kind("ROW_FORMAT = COMPACT", INPLACE, INPLACE),
        Kind("KEY_BLOCK_SIZE = 8, ROW_FORMAT = COMPRESSED", INPLACE, INPLACE, mariadb_back=_OTHER),
        Kind("COMPRESSION = 'ZLIB'", INPLACE, NONE),
        Kind("PAGE_COMPRESSED = 1, PAGE_COMPRESSION_LEVEL = 3", NONE, INPLACE),
        Kind("STATS_PERSISTENT = 0, STATS_AUTO_RECALC = 1, STATS_SAMPLE_PAGES = 4", INPLACE, INSTANT),
        Kind("MAX_ROWS = 10, MIN_ROWS = 1, AVG_ROW_LENGTH = 100, CHECKSUM = 1", INPLACE, INSTANT),
        Kind("AUTOEXTEND_SIZE = 4M", INPLACE, NONE),
        Kind("SECONDARY_ENGINE = rapid", INPLACE, NONE),
        Kind("SECONDARY_ENGINE_ATTRIBUTE = '{\"a\": 1}'", INPLACE, NONE),
        Kind("DEFAULT CHARACTER SET latin1", INPLACE, INSTANT),
        Kind("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", COPY, COPY),
        Kind("CONVERT TO CHARACTER SET latin1", COPY, COPY, loses("values of column v")),
        Kind("ENGINE = InnoDB", INPLACE, INPLACE, NOTHING),
        Kind("FORCE", INPLACE, INPLACE, NOTHING),
        Kind("AUTO_INCREMENT = 1000", INPLACE, INSTANT, "no: the counter that was there before is not in a definition"),
        Kind("TRUNCATE TABLE orders", AT_ONCE, AT_ONCE, loses("every row of the table")),
        Kind("DROP TABLE orders", AT_ONCE, AT_ONCE, loses("every row of the table")),
    ),
    "Partitions": (
        Kind("PARTITION BY HASH (id) PARTITIONS 4", COPY, UNCHOSEN),
        Kind("PARTITION BY KEY (id) PARTITIONS 2", COPY, UNCHOSEN, base=_BY_RANGE),
        Kind("REMOVE PARTITIONING", COPY, UNCHOSEN, base=_BY_RANGE),
        Kind("ADD PARTITION (PARTITION p2 VALUES LESS THAN (3000))", INPLACE, UNCHOSEN, base=_BY_RANGE),
        Kind("ADD PARTITION PARTITIONS 2", INPLACE_SHARED, UNCHOSEN, base=_BY_HASH),
        Kind("COALESCE PARTITION 2", INPLACE_SHARED, UNCHOSEN, base=_BY_HASH),
        Kind(
            "REORGANIZE PARTITION p0 INTO (PARTITION a VALUES LESS THAN (500), PARTITION b VALUES LESS THAN (1000))",
            *(INPLACE_SHARED, UNCHOSEN),
            base=_BY_RANGE,
        ),
        Kind(
            "REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (2000))",
            *(INPLACE_SHARED, UNCHOSEN),
            base=_BY_RANGE,
        ),
        Kind("REBUILD PARTITION p0", INPLACE_SHARED, UNCHOSEN, NOTHING, base=_BY_RANGE),
        Kind("OPTIMIZE PARTITION p0", INSTANT, UNCHOSEN, NOTHING, base=_BY_RANGE),
        Kind("ANALYZE PARTITION p0", INSTANT, UNCHOSEN, NOTHING, base=_BY_RANGE),
        Kind("DROP PARTITION p0", INPLACE, UNCHOSEN, loses("the rows of the partitions"), base=_BY_RANGE),
    ),
    "Periods and history, which MariaDB alone has": (
        Kind("ADD PERIOD FOR p (x, y)", NONE, COPY, base=_TIMES),
        Kind("DROP PERIOD FOR p", NONE, INSTANT, base=_PERIOD),
        Kind("DROP PERIOD FOR p, ADD PERIOD FOR `q``r` (x, y)", NONE, COPY, base=_PERIOD),
        Kind(
            "DROP PERIOD FOR p, DROP COLUMN x, DROP COLUMN y",
            *(NONE, INSTANT, loses("the values of column x")),
            base=_PERIOD,
        ),
        Kind("ADD UNIQUE KEY o (user_id, p WITHOUT OVERLAPS)", NONE, COPY, base=_PERIOD),
        Kind("ADD SYSTEM VERSIONING", NONE, COPY, "no: no statement is known that takes it back"),
        Kind("ADD COLUMN n INT", NONE, INSTANT, base=_VERSIONED),
        Kind("DROP SYSTEM VERSIONING", NONE, INPLACE_SHARED, loses("the history of the rows"), base=_VERSIONED),
    ),
}


def page_table() -> str:
    """The table of the page, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for title, kinds in KINDS.items():
        yield from (f"## {title}", "| statement | MySQL | MariaDB | taken back |", "|---|---|---|---|")
        for kind in kinds:
            took = " | ".join(kind.of(flavour) or "–" for flavour in (MYSQL, MARIADB))
            yield f"| {_code(kind.clauses)} | {took} | {_back(kind)} |"
        yield ""


def _code(text: str) -> str:
    return f"``` {text} ```" if "`" in text else f"`{text}`"


def _back(kind: Kind) -> str:
    if kind.mariadb_back:
        return f"MySQL: {kind.back}; MariaDB: {kind.mariadb_back}"
    return kind.back


if __name__ == "__main__":
    before, _, _ = PAGE.read_text("utf-8").partition(BEGINNING)
    PAGE.write_text(f"{before}{BEGINNING}{page_table()}", "utf-8")
