"""The dashboard and the alert rules that are shipped name metrics and labels that are there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.status.test_exported import PAGE, PROMTOOL, listed

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "monitoring"
RULES, DASHBOARD = FOLDER / "rules.yaml", FOLDER / "dashboard.json"
KNOWN = {name: (kind, labels) for name, kind, labels in listed(PAGE.read_text("utf-8"))}
OF_ALL = {"migration", "process", "instance", "job", "le"}
"""Labels of every metric: of its own, of where Prometheus found it, and of a histogram's buckets."""


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return found


def expressions() -> list[str]:
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [rule["expr"] for rule in rules()] + queries


def unknown_in(expression: str) -> list[str]:
    """Metrics that nobody exports; a rate of what is no counter."""
    named = re.findall(r"migrate_\w+", expression)
    wrong = []
    for name in named:
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        if name not in KNOWN and KNOWN.get(base, ("", ()))[0] != "histogram":
            wrong.append(name)
    risen = [name for name in re.findall(r"\b(?:rate|increase)\((migrate_\w+)", expression) if name in KNOWN]
    wrong += [f"increase of {name}" for name in risen if KNOWN[name][0] == "gauge"]
    return wrong


def labels_of(expression: str) -> set[str]:
    """Those that what an expression names may have."""
    found = set(OF_ALL)
    for name in re.findall(r"migrate_\w+", expression):
        found |= set(KNOWN.get(re.sub(r"_(bucket|sum|count)$", "", name), KNOWN.get(name, ("", ())))[1])
    return found


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_that_is_named_exists(expression: str) -> None:
    assert re.search(r"migrate_\w+", expression)
    assert unknown_in(expression) == []
    grouped = {label.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(",")}
    matched = set(re.findall(r"(\w+)\s*=~?\s*\"", expression))
    assert (grouped | matched) - labels_of(expression) == set()


def test_a_metric_that_does_not_exist_would_be_seen() -> None:
    """Negative control."""
    assert unknown_in("rate(migrate_rows_total[5m])") == ["migrate_rows_total"]
    assert unknown_in("migrate_lag_seconds_bucket") == ["migrate_lag_seconds_bucket"]
    assert unknown_in("increase(migrate_lag_seconds[5m])") == ["increase of migrate_lag_seconds"]


def test_what_the_texts_of_rules_and_panels_say_is_a_label_of_their_metric() -> None:
    texts = [(rule["annotations"]["summary"], rule["expr"], r"\$labels\.(\w+)") for rule in rules()]
    texts += [(one["legendFormat"], one["expr"], r"{{(\w+)}}") for panel in panels() for one in panel["targets"]]
    wrong = [
        (text, name) for text, expr, form in texts for name in re.findall(form, text) if name not in labels_of(expr)
    ]
    assert wrong == []


def test_each_rule_has_a_name_of_its_own_and_each_panel_a_place_of_its_own() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 15
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_takes_the_rules() -> None:
    told = subprocess.run([str(PROMTOOL), "check", "rules", RULES], capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stderr) == (0, "")
