"""Where a change stands in its source's history: what is later, whatever clocks say (invariant order-over-time)."""

from __future__ import annotations

from typing import NamedTuple

from migrate.model.errors import Code, StopError

HALF_BITS = 1
ROW_BITS = 31


class Coordinate(NamedTuple):
    """Totally ordered for one source; coordinates of different sources never compare (invariant sources-never-compare).

    incarnation: rises when the server behind the address changes, and on a rewind.
    file: number of the binlog file ("binlog.000012" is 12).
    transaction: byte offset in that file at which the transaction starts.
    ordinal: see `ordinal()`; 0 where a whole transaction is meant.
    """

    incarnation: int
    file: int
    transaction: int
    ordinal: int


def ordinal(event: int, row: int, half: int) -> int:
    """Place of a row change inside its transaction, independent of any filter.

    event: how many row events came before in the transaction; row: index of the row in its event;
    half: 1 for the insert half of an update that changes the key, else 0. Two ordinals a row; the row event is the
    upper part so that filtered tables need no decoding.
    """
    if row >> ROW_BITS:
        raise StopError(f"a row event holds more than {2**ROW_BITS} rows", code=Code.LOG)
    return event << (ROW_BITS + HALF_BITS) | row << HALF_BITS | half


def file_number(name: str) -> int:
    """The number in a binlog file's name. Raises StopError when there is none.

    "binlog.000012" gives 12; numbers past 999999 only grow longer (MySQL manual, "The Binary Log").
    """
    digits = name.rsplit(".", 1)[-1]
    if not (digits.isascii() and digits.isdecimal()):
        raise StopError(
            f"binlog file '{name}' has no number", hint="coordinates need the server's own file names", code=Code.LOG
        )
    return int(digits)


def in_log(file: str, pos: int) -> tuple[int, int]:
    """A place in one server's log as its places compare: by the file's number, then by position. Raises StopError."""
    return file_number(file), pos
