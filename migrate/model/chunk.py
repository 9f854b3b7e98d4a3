"""A chunk: a key range of one source table, the unit of copy and comparison; and its bounds as text."""

from __future__ import annotations

import json
from dataclasses import dataclass

from migrate.model.change import Key, key_json


@dataclass(frozen=True, slots=True)
class Chunk:
    """The keys above `low` up to `high`; None stands for the open end. Parts of a chunk have its number."""

    number: int
    low: Key | None
    high: Key | None


def bound_text(bound: Key | None) -> str | None:
    """A bound as the state and the targets store it: a JSON list of texts, or None."""
    return None if bound is None else key_json(bound)


def bound_of(text: str | None) -> Key | None:
    """The bound that is stored so."""
    return None if text is None else tuple(json.loads(text))
