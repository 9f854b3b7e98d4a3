"""Where one table of a migration stands."""

from __future__ import annotations

from enum import StrEnum

from migrate.state.membership import MemberStage
from migrate.state.phase import Phase


class TableState(StrEnum):
    """The values are what `migrate status --json` shows."""

    WAITING = "waiting for the publisher"  # added, and no publisher has begun with it
    JOINING = "waiting for its place in the log"  # added, and the publisher has not come to its place
    CREATED = "created"  # nothing of it is copied
    COPYING = "copying"
    COPIED = "copied"
    CATCHING_UP = "catching up"  # copied, and its source's server changed: a verification has yet to judge it

    @property
    def is_added(self) -> bool:
        """Whether its publisher has yet to take it up."""
        return self in (TableState.WAITING, TableState.JOINING)

    @property
    def is_to_be_copied(self) -> bool:
        return self in (TableState.CREATED, TableState.COPYING)

    @classmethod
    def of(cls, phase: Phase, joining: MemberStage | None, in_doubt: bool) -> TableState:
        """joining: how far its publisher is with an added table; None once it began. in_doubt: its source's server
        changed."""
        if joining is not None:
            return cls.WAITING if joining is MemberStage.WAITING else cls.JOINING
        return cls.CATCHING_UP if in_doubt and phase is Phase.COPIED else cls(phase.value)
