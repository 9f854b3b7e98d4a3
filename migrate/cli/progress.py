"""Progress on a terminal as a bar, elsewhere as plain lines."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn

from migrate.terminal import console

_LINE_EVERY = 5.0


class WaitNotice:
    """Says on stderr what is waited for: a line every few seconds, and none where it is soon over."""

    def __init__(self) -> None:
        self._console = console(stderr=True, highlight=False)
        self._next = time.monotonic() + _LINE_EVERY

    def say(self, line: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_EVERY
            self._console.print(f"waiting: {line}", markup=False, soft_wrap=True)


class RowsBar:
    """Shows rows done of rows expected, a line a table."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._console = console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, float] = {}

    def __enter__(self) -> RowsBar:
        if sys.stderr.isatty():
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f} rows"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[more]}", markup=False),
            )
            self._bar = Progress(*columns, console=self._console)
            self._bar.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, line: str) -> None:
        """A line above the bar."""
        self._console.print(line, markup=False, soft_wrap=True)

    def update(self, table: str, rows: int, expected: int, more: str = "") -> None:
        """Take in how far one table is: rows done, and the estimate of all its rows (0 when not known).

        more: what else there is to say, beginning with a comma.
        """
        if self._bar is None:
            self._line(table, rows, expected, more)
            return
        if table not in self._tasks:
            self._tasks[table] = self._bar.add_task(f"{self._verb} {table}", total=expected or None, more="")
        shown = more.removeprefix(", ")
        self._bar.update(self._tasks[table], completed=rows, total=max(expected, rows) or None, more=shown)

    def _line(self, table: str, rows: int, expected: int, more: str) -> None:
        now = time.monotonic()
        if now - self._said.get(table, 0.0) < _LINE_EVERY and rows < expected:
            return
        self._said[table] = now
        of = f" of about {expected:,}" if expected else ""
        self._console.print(f"{self._verb} {table}: {rows:,} rows{of}{more}", markup=False)
