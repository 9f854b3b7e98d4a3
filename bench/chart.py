"""The table and the plot of docs/benchmarks.md from bench/out/capture.json.

.venv/bin/python -m bench.chart      # prints the table, writes docs/benchmarks-capture.svg
"""

from __future__ import annotations

import json
import statistics
from html import escape
from pathlib import Path
from typing import Any

from bench.capture import OUT

SVG = Path(__file__).parent.parent / "docs" / "benchmarks-capture.svg"
_WORKLOADS = {"large": "1,000-row transactions", "small": "1-row transactions"}
_COLOURS = {"migrate": "#1f6feb", "debezium": "#d1742f", "mysql-replication": "#8b949e"}
_LABELS = {
    "migrate": "this publisher",
    "debezium": "Debezium",
    "mysql-replication": "mysql-replication, decoding only",
}
_WIDTH, _BAR, _LEFT, _ROOM = 760, 22, 230, 110
_FIGURES = {"rows_per_second": "rows a second", "cpu_microseconds_per_row": "CPU microseconds a row"}


def median(runs: list[dict[str, Any]], figure: str) -> float:
    return float(statistics.median(run[figure] for run in runs))


def table(found: dict[str, Any]) -> str:
    """Lowest, median and highest of the runs."""
    lines = [
        "| | workload | rows a second | CPU microseconds a row | rows a CPU second | most memory |",
        "|---|---|---|---|---|---|",
    ]
    for load, everyone in found["runs"].items():
        for who in (name for name in _LABELS if name in everyone):
            runs = everyone[who]
            rates, cpu = (sorted(run[figure] for run in runs) for figure in _FIGURES)
            peak = max(run["peak_mb"] for run in runs)
            middle = median(runs, "cpu_microseconds_per_row")
            lines.append(
                f"| {_LABELS[who]} | {_WORKLOADS[load]} | {rates[0]:,} / **{median(runs, 'rows_per_second'):,.0f}** /"
                f" {rates[-1]:,} | {cpu[0]:.1f} / **{middle:.1f}** / {cpu[-1]:.1f} | {1e6 / middle:,.0f} | {peak} MB |"
            )
    return "\n".join(lines)


def svg(found: dict[str, Any]) -> str:
    """Bars for each figure and workload, each scaled to its longest."""
    parts: list[str] = []
    y = 10
    for figure, title in _FIGURES.items():
        for load, everyone in found["runs"].items():
            y += 22
            parts.append(_text(10, y, f"{title}, {_WORKLOADS[load]}", bold=True))
            values = {who: median(everyone[who], figure) for who in _LABELS if who in everyone}
            scale = (_WIDTH - _LEFT - _ROOM) / max(values.values())
            for who, value in values.items():
                y += _BAR
                width = max(1.0, value * scale)
                parts.append(_text(10, y, _LABELS[who]))
                parts.append(f'<rect x="{_LEFT}" y="{y - 13}" width="{width:.1f}" height="16" fill="{_COLOURS[who]}"/>')
                parts.append(_text(_LEFT + width + 6, y, f"{value:,.0f}" if value >= 100 else f"{value:.1f}"))
            y += 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 12}" width="{_WIDTH}">'
    style = "<style>text{font:13px sans-serif;fill:#24292f}</style>"
    return "\n".join([head, style, f'<rect width="{_WIDTH}" height="{y + 12}" fill="#ffffff"/>', *parts, "</svg>\n"])


def _text(x: float, y: float, words: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{weight}>{escape(words)}</text>'


def main() -> None:
    found = json.loads(OUT.read_text())
    SVG.write_text(svg(found))
    print(table(found))  # noqa: T201  what it is for
    print(json.dumps({key: value for key, value in found.items() if key.startswith("ratio")}))  # noqa: T201


if __name__ == "__main__":
    main()
