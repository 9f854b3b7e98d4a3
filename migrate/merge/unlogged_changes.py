"""Rows that changed at the source without its log, told by what the log says of them next (docs/decisions/0032).

A marker that comes late finds no row that a statement has changed, taken or inserted again meanwhile. What such a
statement says the row was before is then another row than the one at the target, by which its children are found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from migrate.merge.marker_effect import Images
from migrate.model.change import Change, Key
from migrate.model.message import Row

Told = tuple[Row, Row | None, Change]
"""A row, what it was by the time of the change (None: gone), and the change that says so."""


def unlogged(changes: dict[Key, list[Change]], images: Images, columns: Collection[str]) -> Iterator[Told]:
    """What no change says of rows.

    Args: changes: all of a batch, in order, by their keys; images: the rows as the target had them before, of a key one
    for each place that has it; columns: those that matter.
    """
    for key, image in images:
        if key in changes:
            yield from _between(image, changes[key][0], columns)
    for some in changes.values():
        for one, next_ in pairwise(some):
            if one.after is not None:
                yield from _between(one.after, next_, columns)


def _between(row: Row, next_: Change, columns: Collection[str]) -> Iterator[Told]:
    before = next_.before
    if before is None or any(row.get(name) != before.get(name) for name in columns):
        yield row, before, next_


def by_key(changes: Sequence[Change]) -> dict[Key, list[Change]]:
    found: dict[Key, list[Change]] = {}
    for change in changes:
        found.setdefault(change.key, []).append(change)
    return found
