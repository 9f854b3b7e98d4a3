"""What is wrong with one key: a pure function, tested as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from migrate.target.routing import PlannedTable
from migrate.verify.lookup import Seen


class Kind(StrEnum):
    MISSING = "missing"  # at no place; of a broadcast table, at some node
    EXTRA = "extra"  # not at the source
    DIFFERENT = "different"  # at its place with other bytes
    MISPLACED = "misplaced"  # at another place than its own, or at a source table where its row does not belong
    DUPLICATED = "duplicated"  # at its place, and at another one too
    TWICE = "twice"  # in two tables of a group, of which one alone may have it


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: Kind
    place: int | None  # where the key belongs, None when the source does not have it
    elsewhere: tuple[int, ...] = ()  # other places that have it
    holders: tuple[PlannedTable, ...] = ()  # the source tables that have it
    belongs: str = ""  # where its row belongs at the side that is read, where that is another table
    lacking: tuple[int, ...] = ()  # of a broadcast table, places that do not have it
    differing: tuple[int, ...] = ()  # and those that have other bytes
    mirrors: tuple[str, ...] = ()  # where one is read, the nodes that have it otherwise than the first one

    @property
    def by_hand(self) -> str:
        """What a person must do about it, as no refresh sets it right; "" where one does."""
        if self.mirrors:
            return "give every node of the broadcast table the same row, on the side of applications"
        if self.kind is Kind.TWICE:
            return "delete the row in the table where it does not belong"
        return "move the row to the table where it belongs, on the side of applications" if self.belongs else ""


def judge(seen: Seen) -> Verdict | None:
    """The verdict on a key as it was seen on both sides; None when they agree."""
    found = tuple(sorted(seen.targets))
    if seen.source is None:
        return Verdict(Kind.EXTRA, None, found) if found else _at_mirrors(seen)
    if len(seen.holders) > 1:
        return Verdict(Kind.TWICE, None, found, seen.holders)
    if seen.belongs:  # whatever the standby side has: a person is to move the row, which brings it there
        return Verdict(Kind.MISPLACED, seen.source[0], found, seen.holders, seen.belongs)
    return _at_one_source(seen.source, seen, found) or _at_mirrors(seen)


def _at_mirrors(seen: Seen) -> Verdict | None:
    """What is left where both sides agree: the nodes of a broadcast table that is read may not."""
    place, digest = seen.source or (None, None)
    if not (unlike := tuple(name for name, one in seen.mirrors.items() if one != digest)):
        return None
    there = {seen.mirrors[name] for name in unlike}
    kind = Kind.EXTRA if digest is None else Kind.MISSING if there == {None} else Kind.DIFFERENT
    return Verdict(kind, place, (), seen.holders, mirrors=unlike)


def _at_every_node(expected: tuple[int, str], seen: Seen) -> Verdict | None:
    place, digest = expected
    lacking = tuple(node for node in range(seen.nodes) if node not in seen.targets)
    differing = tuple(node for node, there in sorted(seen.targets.items()) if there != digest)
    if not (lacking or differing):
        return None
    kind = Kind.DIFFERENT if differing else Kind.MISSING
    return Verdict(kind, place, (), seen.holders, lacking=lacking, differing=differing)


def _at_one_source(expected: tuple[int, str], seen: Seen, found: tuple[int, ...]) -> Verdict | None:
    if seen.nodes:
        return _at_every_node(expected, seen)
    place, digest = expected
    elsewhere = tuple(other for other in found if other != place)
    if place not in seen.targets:
        return Verdict(Kind.MISPLACED if elsewhere else Kind.MISSING, place, elsewhere, seen.holders)
    if seen.targets[place] != digest:
        return Verdict(Kind.DIFFERENT, place, elsewhere, seen.holders)
    return Verdict(Kind.DUPLICATED, place, elsewhere, seen.holders) if elsewhere else None


def follows(seen: Seen, earlier: Sequence[Seen]) -> bool:
    """Whether the target has what the source had at an earlier look: the stream is behind a row that keeps changing."""
    if len(seen.holders) > 1 or seen.belongs:
        return False
    known = {one.source and one.source[1] for one in (*earlier, seen)}
    if any(digest not in known for digest in seen.mirrors.values()):
        return False
    if seen.nodes:  # each is written by itself
        changed = any(before.source != seen.source for before in earlier)
        return changed and all(seen.targets.get(node) in known for node in range(seen.nodes))
    return any(before.source != seen.source and judge(Seen(before.source, seen.targets)) is None for before in earlier)
