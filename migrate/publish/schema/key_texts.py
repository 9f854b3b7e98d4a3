"""Which changes of a column's type leave the canonical texts of its values as they were (docs/messages.md, "Values").

Changes of a row travel and are folded by the texts of its key, and rows are placed by those of the sharding columns.
"""

from __future__ import annotations

import re

from migrate.model.labels import labels_of
from migrate.model.table import Column, Kind

_SIZES = re.compile(r"\((\d+)(?:,(\d+))?\)")
_BY_TYPE = frozenset({Kind.INET, Kind.VECTOR})
_TIMES = frozenset({Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME})


def same_texts(before: Column, after: Column) -> bool:
    """Whether each value that both definitions can hold has the same text under both."""
    if before.kind is not after.kind:
        return False
    kind, old, new = before.kind, before.type, after.type
    if kind in (Kind.ENUM, Kind.SET):  # their numbers are the text
        labels = labels_of(old)
        return labels == labels_of(new)[: len(labels)]
    if kind is Kind.DECIMAL:
        return _size(old, 2) == _size(new, 2)
    if kind in _TIMES:
        return _size(old, 1) == _size(new, 1)
    if kind is Kind.RAWTEXT:
        return before.charset == after.charset
    if kind is Kind.BINARY and new.lower().startswith("binary"):  # which fills with zero bytes
        return old.lower() == new.lower()
    return kind not in _BY_TYPE or old.lower() == new.lower()


def _size(type_: str, place: int) -> int:
    """The first or second number behind the type's name; 0 without."""
    found = _SIZES.search(type_)
    return int(found[place] or 0) if found else 0
