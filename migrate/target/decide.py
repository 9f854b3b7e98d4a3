"""What to do with one key at one place: a pure function, tested as a table."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import NamedTuple

from migrate.model.change import Key, NoChange, Origin
from migrate.model.coordinate import Coordinate
from migrate.model.message import Row


class Intent(NamedTuple):
    """The state a key shall have at a place: this row, or none."""

    key: Key
    row: Row | None
    origin: Origin

    @property
    def coordinate(self) -> Coordinate:
        """Of the change that gives it. Raises TypeError where none does."""
        if isinstance(self.origin, NoChange):
            raise TypeError(f"no change gives this row: {self.origin.name}")
        return self.origin


class Write(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    NOTHING = "nothing"
    SKIP = "skip"  # the row that is there is newer by its update time: the key is refreshed later


class Note(StrEnum):
    """What happens to the key's entry in the delete ledger."""

    KEEP = "keep"
    REMOVE = "remove"
    PUT = "put"  # a row was deleted while the copy may still bring an older one
    PUT_EMPTY = "put empty"  # as PUT, and no row was there: a delayed message comes back for it


class Decision(NamedTuple):
    write: Write
    note: Note


@cache
def decide(wanted: bool, present: bool, copy_open: bool, outdated: bool = False) -> Decision:
    """Judge one key at one place.

    wanted: the row shall be there; present: a row with the key is there now, locked; copy_open: the full copy can
    still insert at this place; outdated: the update-time filter says that the present row is newer. Without that a
    present row is always older: order was settled before by coordinates.
    """
    if wanted and present and outdated:
        return Decision(Write.SKIP, Note.REMOVE)
    if wanted:
        return Decision(Write.UPDATE if present else Write.INSERT, Note.REMOVE)
    if present:
        return Decision(Write.DELETE, Note.PUT if copy_open else Note.KEEP)
    return Decision(Write.NOTHING, Note.PUT_EMPTY if copy_open else Note.KEEP)


class Return(StrEnum):
    """What becomes of a delayed delete that came back."""

    DROP = "drop"
    AGAIN = "again"
    DELETE = "delete"


def decide_return(noted: Coordinate | None, mine: Coordinate, copy_open: bool) -> Return:
    """Judge a delayed delete (invariant tombstone-under-open-chunk).

    noted: coordinate of the ledger's entry for the key, None when it is gone (the key was written again);
    mine: coordinate of the delete that came back. An entry of another coordinate belongs to another delete.
    """
    if noted is None or noted != mine:
        return Return.DROP
    return Return.AGAIN if copy_open else Return.DELETE
