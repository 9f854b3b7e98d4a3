"""How results of checks are told: one line each, and below it the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migrate.cli.options import out
from migrate.preflight.result import Result


def tell_results(results: Sequence[Result]) -> None:
    """Print them; a remedy that is the last one's is not said again."""
    told = ""
    for result in results:
        out.print(f"{result.verdict:>14}  {result.message}", markup=False)
        if result.mend and result.mend != told:
            out.print(f"{'':16}→ {result.mend}", markup=False)
        told = result.mend


def as_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """For programs."""
    return [
        {"check": r.check, "subject": r.subject, "verdict": r.verdict, "message": r.message, "mend": r.mend}
        for r in results
    ]
