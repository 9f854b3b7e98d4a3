"""Where a process answers: the port, the file that names it, and what is left of both."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import migrate.metrics.consumer
import migrate.metrics.publisher
import migrate.metrics.shared  # noqa: F401 - each registers what it counts
from migrate.metrics import serving
from migrate.metrics.registry import REGISTRY
from migrate.metrics.weighted import Weighted
from migrate.model.errors import ConfigError
from migrate.settings import Settings
from sandbox.ports import HOST, free_port
from tests.helpers import make_settings
from tests.status.test_exported import PAGE, PROMTOOL, listed


def settings_at(run: Path, listen: str, **more: Any) -> Settings:
    return make_settings(run_dir=run / "run", metrics={"listen": listen, **more})


def read(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
        text: str = answer.read().decode()
        return text


def named(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text("utf-8"))[0] for file in sorted(directory.glob("*.json"))]


def test_each_process_has_its_port_and_says_so_while_it_runs(tmp_path: Path) -> None:
    base = free_port()
    settings = settings_at(tmp_path, f"{HOST}:{base}", directory=tmp_path)
    with serving(settings, "consume"), serving(settings, "publish:s"):
        found = {one["labels"]["process"]: one["targets"][0] for one in named(tmp_path)}
        assert found == {"consume": f"{HOST}:{base}", "publish:s": f"{HOST}:{base + 5}"}
        assert "migrate_queue_bytes" in read(found["consume"])
        assert [file.stat().st_mode & 0o777 for file in tmp_path.glob("*.json")] == [0o644] * 2
    assert named(tmp_path) == []
    with closing(socket.create_server((HOST, base))):
        pass  # it is free again


def test_a_port_that_is_taken_is_another_one_and_the_file_says_which(tmp_path: Path) -> None:
    with closing(socket.create_server((HOST, 0))) as other:
        base = other.getsockname()[1]
        with serving(settings_at(tmp_path, f"{HOST}:{base}"), "consume"):
            (found,) = named(tmp_path / "run" / "metrics")
            assert found["targets"] != [f"{HOST}:{base}"]
            assert "migrate_queue_bytes" in read(found["targets"][0])


def test_the_file_of_a_killed_process_is_removed_by_the_next_and_no_other(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f"m-consume-{ended.pid}", f"m-consume-{os.getppid()}", f"m-commit-{ended.pid}"):
        (tmp_path / f"{name}.json").write_text("[{}]")
    with serving(settings_at(tmp_path, f"{HOST}:0", directory=tmp_path), "consume"):
        left = {file.stem for file in tmp_path.glob("*.json")}
    assert left == {f"m-consume-{os.getppid()}", f"m-commit-{ended.pid}", f"m-consume-{os.getpid()}"}


def test_without_the_setting_nothing_listens(tmp_path: Path) -> None:
    with serving(make_settings(run_dir=tmp_path), "consume"):
        assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("listen", ["0.0.0.0:9464", "db.internal:9464", "[::]:0"])
def test_an_address_that_others_reach_is_refused(listen: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.listen.* not a loopback address"):
        make_settings(metrics={"listen": listen})


def test_a_histogram_of_many_values_is_as_the_librarys() -> None:
    registry = CollectorRegistry()
    one = Weighted("t_seconds", "Test", (0.5, 1, 2), registry)
    one.observe({0.1: 3, 0.5: 1, 1.5: 2, 7.0: 1})
    (family,) = text_string_to_metric_families(generate_latest(registry).decode())
    found: dict[Any, float] = {(one.name, one.labels.get("le")): one.value for one in family.samples}
    assert found.pop(("t_seconds_sum", None)) == pytest.approx(10.8)
    buckets = {"0.5": 4, "1": 4, "2": 6, "+Inf": 7}
    wanted: dict[Any, float] = {("t_seconds_bucket", le): count for le, count in buckets.items()}
    assert found == {("t_seconds_count", None): 7, **wanted}


def test_the_page_lists_what_a_process_counts_with_type_and_labels() -> None:
    ours = set()
    for one in REGISTRY._collector_to_names:
        if isinstance(one, Weighted):
            ours.add((one._name, "histogram", ()))
        elif (kind := getattr(one, "_type", "")) and one._name.startswith("migrate_"):  # type: ignore[attr-defined]
            total = "_total" if kind == "counter" else ""
            ours.add((f"{one._name}{total}", kind, one._labelnames))  # type: ignore[attr-defined]
    assert len(ours) > 15
    assert listed(PAGE.read_text("utf-8").partition("## Of a process")[2]) == ours


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_finds_nothing_wrong_with_the_names() -> None:
    text = generate_latest(REGISTRY)
    told = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert (told.returncode, told.stdout + told.stderr) == (0, b"")
