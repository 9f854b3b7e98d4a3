"""The steps of a merge that ask nobody, put together without a merger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migrate.merge.folder import Folder
from migrate.merge.owned import Owned
from migrate.merge.planner import Planner
from migrate.merge.shares import Answer, Folded, Resolved, Share
from migrate.merge.skipped_rows import SkippedRows
from migrate.merge.table_versions import History, Layouts
from migrate.model.change import Key
from migrate.model.message import Received
from migrate.state.skipped_key import Skips
from migrate.target.refresh import Held
from migrate.target.routing import Plan


class Steps:
    def __init__(self, plan: Plan, history: History | None = None, skips: Skips | None = None) -> None:
        self.layouts = Layouts(history, plan)
        self.layouts.refresh()
        skipped = SkippedRows(plan, skips)
        self._folder = Folder(plan, self.layouts, history, skipped, None)
        self._planner = Planner(plan, self.layouts, skipped)

    def fold(self, owned: Owned, items: Sequence[Received]) -> Folded:
        return self._folder.fold(owned, items)

    def plan(self, folded: Folded, *answers: Answer) -> Share:
        return self._planner.plan(Resolved(folded, answers))

    def share(self, owned: Owned, items: Sequence[Received]) -> Share:
        """Where the sources are asked for nothing."""
        return self.plan(self.fold(owned, items))

    def answered(self, folded: Folded, rows: Mapping[Key, Held]) -> Share:
        """Where the sources are asked for keys of one table or group, and have these rows of them."""
        ((table, asked),) = folded.refreshes.values()
        return self.plan(folded, Answer(table, asked, rows, {}))
