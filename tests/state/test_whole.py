"""The schema that an empty state database gets at once is the one that the numbered steps make."""

from __future__ import annotations

import re
from pathlib import Path

from migrate.settings import State
from migrate.state import database
from sandbox.stack import Sandbox
from tests.helpers import address, unique


def definitions(box: Sandbox, *before: str) -> dict[str, str]:
    """By name, of the tables that `create` makes in a database in which these statements were run before."""
    server, settings = box.targets[0], State(**address(box.targets[0]), database=unique("whole"))
    server.execute(f"CREATE DATABASE {settings.database} {database.OPTIONS}")
    try:
        server.execute(*before, database=settings.database)
        assert database.create(settings) == [version for version, _ in database.sql_steps("state")]
        names = [str(row[0]) for row in server.query(f"SHOW TABLES IN {settings.database}")]
        found = {name: str(server.query(f"SHOW CREATE TABLE {settings.database}.{name}")[0][1]) for name in names}
        versions = server.query(f"SELECT version FROM {settings.database}.schema_version ORDER BY version")
        return {name: re.sub(r" AUTO_INCREMENT=\d+", "", made) for name, made in found.items()} | {
            "versions": str(versions)
        }
    finally:
        server.execute(f"DROP DATABASE {settings.database}", f"DROP DATABASE IF EXISTS {settings.shadow}")


def test_all_at_once_is_what_the_steps_make(box: Sandbox) -> None:
    by_steps = definitions(box, "CREATE TABLE of_somebody (id INT PRIMARY KEY)")  # so that it is not empty
    assert by_steps.pop("of_somebody")
    at_once = definitions(box)
    assert at_once == by_steps, "a step that changes the state changes sql/state/whole.sql, too"

    whole = Path(__file__).parents[2] / "sql/state/whole.sql"
    half = database.statements(whole.read_text("utf-8"))[::2]
    assert definitions(box, *half) == by_steps, "the next init goes on by the steps where one was ended in between"
