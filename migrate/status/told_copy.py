"""How far the copy of a table is, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migrate.model.words import counted, duration

_LONG = 80  # of a condition in a line


def told_copy(copy: Mapping[str, Any] | None, phase: str) -> str:
    """How far a table's copy is, as the rest of a line; nothing when it has not begun."""
    if copy is None or phase not in ("copying", "copied"):
        return ""
    if phase == "copied":
        return f": {counted_rows(copy['rows_read'])}{told_skew(copy['skew'])}"
    of = f" of about {copy['rows_estimate']:,}" if copy["rows_estimate"] else ""
    again = f", a part again ({_short(copy['part'])})" if copy["part"] else ""
    told = f"{again}: {counted_rows(copy['rows_read'])}{of}, {copy['bytes_read'] / 1e6:,.0f} MB"
    if not copy["running"]:
        return f"{told}{told_skew(copy['skew'])}, does not run since {copy['updated']}"
    told += f", {copy['rows_per_second']:,.0f} rows/s"
    if copy["seconds_left"] is not None:
        told += f", {duration(copy['seconds_left'])} left"
    told += told_skew(copy["skew"])
    if copy["reason"]:
        told += f", {copy['pace'].upper()} ({counted(copy['chunks'], 'chunk')} at a time): {copy['reason']}"
    return told


def _short(condition: str) -> str:
    line = " ".join(condition.split())
    return line if len(line) <= _LONG else f"{line[: _LONG - 1]}…"


def counted_rows(rows: int) -> str:
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def told_skew(skew: float | None) -> str:
    """How unevenly rows are spread, as the rest of a line."""
    return "" if skew is None else f", skew {skew:.2f}"
