"""Rows that a lost server may have, once a cutover goes without it (`--without`): its last word is what it published.

Where a key is on no server that answers, the batch may have changes of it from a lost one: the last of them says
whether that server had the row, and how it was. Without any, the row may have been there or nowhere: nothing tells a
row that applications deleted from one that they moved to the lost server. So the target keeps what it has of the key,
and the key is listed for a person (docs/decisions/0055).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from migrate.merge.fold import Fold
from migrate.merge.shares import Answer
from migrate.model.change import Key, NoChange
from migrate.model.table import TableId
from migrate.state.foreign import ForeignWrite, Kind
from migrate.target.decide import Intent
from migrate.target.routing import PlannedTable

_LastWords = dict[Key, tuple[PlannedTable, Intent]]


def settled(answer: Answer, members: Sequence[PlannedTable], fold: Fold, lost: Collection[str]) -> Answer:
    """An answer of sources of which some are lost and were not asked: their last words, and the keys without any.

    members: the tables of the group, or the table alone. fold: what the share that asks says.
    """
    every = frozenset(one.table.id for one in members)
    at_lost = {
        key
        for key, held in answer.rows.items()
        if not held and any(source in lost for source, _, _ in (answer.tables.get(key) or every))
    }
    if not at_lost:
        return answer
    said = _last_words(answer.planned, at_lost, fold, lost)
    rows, unread = dict(answer.rows), dict[Key, TableId]()
    for key in at_lost:
        if key in said:
            planned, intent = said[key]
            rows[key] = [] if intent.row is None else [(planned, intent.row)]
        elif not _is_deleted(answer, key, lost):
            del rows[key]
            unread[key] = _where(answer, key, lost)
    return replace(answer, rows=rows, unread=unread)


def listed(answer: Answer) -> Iterator[ForeignWrite]:
    """The keys of an answer that a person has to decide on."""
    for key, id_ in answer.unread.items():
        yield ForeignWrite(id_, key, Kind.UNREAD, NoChange.REFRESH)


def _last_words(table: PlannedTable, keys: Collection[Key], fold: Fold, lost: Collection[str]) -> _LastWords:
    """The last change of each key at the lost server; of several servers one that leaves a row, as each knows its own
    order alone (invariant sources-never-compare)."""
    by_server: dict[tuple[Key, str], tuple[PlannedTable, Intent]] = {}
    for _, planned, intents in fold.places():
        source = planned.table.source
        if source not in lost or planned.noted_as.id != table.noted_as.id:
            continue
        for one in intents:
            before = by_server.get((one.key, source))
            # One change takes a row from a place and writes it at another.
            if one.key in keys and (before is None or _rank(before[1]) <= _rank(one)):
                by_server[one.key, source] = planned, one
    said: _LastWords = {}
    for (key, _), word in by_server.items():
        if key not in said or word[1].row is not None:
            said[key] = word
    return said


def _rank(intent: Intent) -> tuple[object, bool]:
    return intent.coordinate, intent.row is not None


def _is_deleted(answer: Answer, key: Key, lost: Collection[str]) -> bool:
    """Whether the key alone says that no lost server can have it, and the one that can has taken it away."""
    planned = answer.planned
    told = planned.belongs.of_key(planned.table, key) if planned.belongs is not None else None
    return told is not None and told[0] not in lost and told in answer.asked[key].tables


def _where(answer: Answer, key: Key, lost: Collection[str]) -> TableId:
    """The table by which the key is listed: the one that its row left, where that is known."""
    left = sorted(id_ for id_ in answer.asked[key].tables if id_[0] not in lost)
    return left[0] if left else answer.planned.table.id
