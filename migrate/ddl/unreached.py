"""Why a run did not come to its goal: a table that somebody altered, one that its server refuses, or what may pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from migrate.model.errors import Code, MigrateError, ServerError, StopError
from migrate.model.words import counted
from migrate.mysql.errors import Refused
from migrate.state.ddl import DdlRun, Goal, ShardRow, Stage


def way_out(run: DdlRun, rows: Iterable[ShardRow]) -> str:
    """The commands that end a run: an undo only goes on, and a statement that nothing takes back only as well."""
    if run.goal is Goal.OLD:
        return "`migrate ddl resume` continues the undo"
    if any(row.stage is Stage.NEW and row.undo is None for row in rows):
        return "`migrate ddl resume` continues it"
    loses = " --allow-data-loss" if run.undo_loses else ""
    return f"`migrate ddl resume` continues it, `migrate ddl undo{loses}` takes it back"


class TableRefused(Refused):
    """The server of a shard table refuses the statement, and would again. number: of its error, 0 where none tells."""

    def __init__(self, message: str, number: int, way: str) -> None:
        super().__init__(message, hint=f"once that is mended, {way}")
        self.number = number


def told(run: DdlRun, rows: Sequence[ShardRow], reached: int) -> str:
    return f"run {run.number}: {reached} of {counted(len(rows), 'table')} are {run.goal}"


def reason(run: DdlRun, rows: Sequence[ShardRow], reached: int, refused: Mapping[int, int]) -> MigrateError | None:
    """Of a run that was not stopped from outside; None of one that was.

    refused: of the shard tables whose servers refused just now and would again the number of the error, by their own.
    """
    so_far, way = told(run, rows, reached), way_out(run, rows)
    for row in rows:
        if row.stage is Stage.ALTERED:
            return StopError(
                f"{so_far}; {row} is neither as before the statement nor as after it: {row.detail}",
                hint=f"alter it by hand to either definition; then {way}",
                code=Code.DEFINITION,
            )
    failed = sorted((row for row in rows if row.stage is Stage.FAILED), key=lambda row: row.number not in refused)
    if not failed:
        return None
    message = f"{so_far}; {failed[0]}: {failed[0].detail}"
    if failed[0].number in refused:
        return TableRefused(message, refused[failed[0].number], way)
    return ServerError(message, hint=f"once that is mended, {way}")


def interrupted(run: DdlRun, rows: Sequence[ShardRow], reached: int) -> ServerError:
    """Of a run that was stopped from outside."""
    so_far = f"{reached} of {counted(len(rows), 'table')} are {run.goal}"
    return ServerError(f"run {run.number} was stopped: {so_far}", hint=way_out(run, rows))
