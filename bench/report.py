"""What a benchmark keeps of its runs, says, and writes."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any

from bench.capture import say

Runs = dict[str, list[dict[str, float]]]


def note(found: dict[str, Any], who: str, measured: dict[str, float]) -> None:
    """Keep a run's figures, and say them."""
    figures = {**measured, "load_after": round(os.getloadavg()[0], 1)}
    found["runs"].setdefault(who, []).append(figures)
    say(f"{who}: {json.dumps(figures)}")


def median(runs: Runs, who: str, figure: str) -> float:
    return statistics.median(run[figure] for run in runs[who])


def write(found: dict[str, Any], to: Path, shown: tuple[str, ...] = ("ratio",)) -> None:
    """Write everything to a file, and say what begins with one of these."""
    to.parent.mkdir(exist_ok=True)
    to.write_text(json.dumps(found, indent=1) + "\n")
    say(json.dumps({key: value for key, value in found.items() if key.startswith(shown)}, indent=1))
    say(f"written to {to}")
