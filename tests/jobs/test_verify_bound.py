"""A verification speaks for the tables as they were when it began: what changes meanwhile is not certified.

Such a one ended clean, and a cutover went by it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import full_copy, verify
from jobs.verify import VerifyProgress
from migrate.model.errors import ConfigError
from migrate.settings import parse
from migrate.state import compared, verification
from migrate.state.compared import Because
from migrate.verify.certificate import page
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread

FILL = (
    "INSERT INTO {t} WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 60)"
    " SELECT n, n FROM seq"
)
SAME = "WHERE migration = 'NAME' AND table_name = 't'"
ANOTHER = (
    "INSERT INTO schema_history (migration, source, table_schema, table_name, incarnation, file_no, tx, definition)"
    f" SELECT migration, source, table_schema, {{}}, {{}}, 9, 9, {{}} FROM schema_history {SAME}"
)
OF_THE_OTHER_STREAM = (
    "INSERT INTO schema_history (migration, source, table_schema, table_name, incarnation, file_no, tx, definition)"
    f" SELECT CONCAT(migration, '-reverse'), 't0', 'd', 't_0', {{}}, 9, 9, {{}} FROM schema_history {SAME} LIMIT 1"
)
FORGOTTEN = "INSERT INTO forgotten (migration, times) VALUES ('NAME', 1) ON DUPLICATE KEY UPDATE times = times + 1"
CHANGES = {
    f"UPDATE phase SET attempt = attempt + 1 {SAME}": "t: it was copied again while it was compared",
    "UPDATE position SET incarnation = incarnation + 1": "was read at another server, or was rewound",
    FORGOTTEN: "or the stream from the other side began",
    f"UPDATE phase SET rule_hash = REVERSE(rule_hash) {SAME}": "t: its rule changed while it was compared",
    OF_THE_OTHER_STREAM.format(1, """REPLACE(definition, '"v"', '"w"')"""): "the other side was altered while",
    ANOTHER.format("table_name", 1, """REPLACE(definition, '"v"', '"w"')"""): "t: it was altered while it was compared",
}


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path, spark: object) -> Laid:
    check = {"master": "local[2]", "chunk_rows": 4, "rechecks": 1, "recheck_seconds": 0.1}
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, v INT)"
    made = lay(box, tmp_path, create, spread("id", "t"), fill=[FILL], extra={"verify": check})
    full_copy.run(made.settings)
    return made


def verified(laid: Laid, meanwhile: str = "") -> verify.VerifyResult:
    """A verification, with a statement in the state database once it has begun."""
    done: list[bool] = []

    def change(_: VerifyProgress) -> None:
        if meanwhile and not done:
            in_state(laid, meanwhile)
            done.append(True)

    result = verify.run(parse(laid.raw, {}), progress=change)
    assert done or not meanwhile
    return result


def armed(laid: Laid) -> bool:
    """Whether a cutover may go by a verification."""
    with laid.state().connect() as connection:
        return bool(verification.equal_since(connection, laid.settings.name))


def in_state(laid: Laid, statement: str) -> None:
    with laid.state().begin() as connection:
        connection.exec_driver_sql(statement.replace("NAME", laid.settings.name).replace("%", "%%"))


def test_a_table_that_changes_while_it_is_compared_is_not_certified(laid: Laid) -> None:
    """Lost: rows of a table that was copied again or altered while it was compared: the certificate armed a cutover."""
    in_state(laid, OF_THE_OTHER_STREAM.format(0, "definition"))
    for meanwhile, why in CHANGES.items():
        result = verified(laid, meanwhile)
        (told,) = result.tables[0].unaccounted
        assert why in told
        assert (result.clean, result.total, armed(laid)) == (False, 1, False), why
        assert f"not accounted for: {told}" in page(result.certificate)
        if "REVERSE" in meanwhile:
            in_state(laid, meanwhile)  # as it was


def test_a_verification_has_an_age_and_speaks_for_no_table_that_was_added_meanwhile(laid: Laid) -> None:
    """Lost: rows of a table that was added meanwhile, by a certificate that did not know it."""
    name = laid.settings.name
    assert verified(laid).clean
    with laid.state().begin() as connection:
        assert verification.is_fresh(connection, name, 1)
        connection.exec_driver_sql("UPDATE verification SET started = started - INTERVAL 61 MINUTE")
        assert not verification.is_fresh(connection, name, 1)
        assert verification.is_fresh(connection, name, 2)
        compared.forget(connection, name, Because.BEGAN)

    result = verified(laid, ANOTHER.format("'u'", 0, "definition"))
    added = f"{laid.source}.u"
    assert (result.certificate["added"], result.certificate["all_tables"]) == ([added], False)
    assert f"not compared, as they were added meanwhile: {added}" in page(result.certificate)
    with laid.state().connect() as connection:
        assert not verification.is_fresh(connection, name, 1)
        assert compared.load(connection, name) == {}


def test_a_config_that_lacks_a_table_of_the_migration_is_refused(laid: Laid) -> None:
    """Lost: differences of a table that an old copy of the config did not name, behind a certificate of all tables."""
    in_state(laid, ANOTHER.format("'u'", 0, "definition"))
    with pytest.raises(ConfigError, match=f"{laid.source}.u of source .* is not in the config"):
        verify.run(parse(laid.raw, {}))
    with pytest.raises(ConfigError, match="is not in the config"):
        full_copy.run(parse(laid.raw, {}))
