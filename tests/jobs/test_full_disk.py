"""The disk of Spark's own files is full: it says so or goes on, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.stack import Sandbox
from tests.copy.setup import lay, spread
from tests.failover.disk import small_disk
from tests.jobs.commands import config_of, ended, held, started
from tests.jobs.test_full_copy import CREATE, numbers, raw_rows

pytestmark = pytest.mark.timeout(600)


def test_copy_and_verification_wait_for_no_disk_but_name_it(mariadb_box: Sandbox, tmp_path: Path) -> None:
    few = {"copy": {"chunk_rows": 100, "chunks_at_once": 2, "master": "local[2]"}}
    laid = lay(mariadb_box, tmp_path, CREATE, spread("id", "t"), fill=numbers(2000), extra=few)
    with small_disk(tmp_path / "disk", 8) as disk:
        config = config_of(laid, tmp_path, run_dir=str(disk.path / "run"))
        disk.fill()
        told = ended(started(config, "copy"), code=3)
        assert "Spark did not start: " in told
        assert f"the disk of {disk.path}/run/spark is full; `run_dir` says where it is" in told
        disk.free()
        copy = started(config, "copy")
        with held(laid, copy, 2):
            disk.fill()
        told = ended(copy)
        assert "copied 2000 rows" in told, told
        here, there = raw_rows(laid)
        assert here == there
        disk.free()
        assert "0 differences" in ended(started(config, "verify"))
