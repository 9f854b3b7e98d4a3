"""Commands before their turn, right after `migrate init`: each says what is so, and what comes first."""

from __future__ import annotations

from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.cli.support import config_of, migrate, written
from tests.helpers import scratch, unique


def test_rollback_cutover_and_verify_before_anything_was_copied(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with scratch(box.source, "turn") as database:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        raw = config_of(box, database, name=unique("turn"), kafka={"bootstrap": kafka.bootstrap})
        config = written(tmp_path, raw | {"run_dir": str(tmp_path / "run")})
        try:
            assert migrate(config, "init").code == 0
            message, hint = migrate(config, "rollback").told(3)
            assert message.startswith("applications are at the source already")
            assert hint == "`migrate cutover` moves them back"
            message, hint = migrate(config, "cutover").told(3)
            assert message == "the reverse stream is not there yet"
            assert hint.startswith("`migrate --reverse preflight`")
            told = migrate(config, "verify").err
            assert f"not copied yet, so rows will be missing: {database}.t (`migrate copy`)\n" in told
        finally:
            for name in (f"{database}_state", f"{database}_state_shadow", f"{database}_target"):
                box.targets[0].execute(f"DROP DATABASE IF EXISTS {name}")
