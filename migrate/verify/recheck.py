"""Suspect keys looked at again until they agree or the looks are used up: live writes are no differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
import structlog

from migrate.chunks.sessions import Sessions
from migrate.model.change import Key
from migrate.model.errors import StopError
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.target.groups import name_of
from migrate.target.routing import PlannedTable
from migrate.verify.difference import Kind, Verdict, follows, judge
from migrate.verify.lookup import Seen, differing_columns, look_up

log = structlog.get_logger("migrate.verify")
LookUp = Callable[[list[Key]], dict[Key, Seen]]
Hurry = Callable[[float], None]
"""Asks for so many seconds of hurry (`migrate.state.migration.hurry`)."""
_NOTICED = 1.5  # seconds until every process has noticed that
_WATCHED = 200  # rows at most
_WATCH_SECONDS = 15.0
_BETWEEN = 0.02  # seconds


@dataclass(slots=True)
class RecheckOutcome:
    """Keys that still differ after the last look, and how many kept changing while they were looked at."""

    verdicts: dict[Key, Verdict] = field(default_factory=dict)
    in_motion: int = 0
    moving: list[Key] = field(default_factory=list, compare=False)  # their names


class Recheck:
    """Suspect keys and how they were seen, look after look; those that agree are dropped.

    One agrees too whose target now has exactly what the source had at an earlier look, when the target had something
    else: the stream brought it meanwhile, and the row has changed again since.
    """

    def __init__(self, keys: Iterable[Key], look: LookUp, failed: Callable[[StopError], None] | None = None) -> None:
        """failed: told why the keys cannot be looked at, and they are dropped; without it that is raised."""
        self._history: dict[Key, list[Seen]] = {key: [] for key in keys}
        self._look = look
        self._failed = failed
        self.agreed: list[Key] = []

    @property
    def left(self) -> int:
        """How many keys have not agreed yet."""
        return len(self._history)

    @property
    def changing(self) -> list[Key]:
        """Those left that changed between looks, at the source or at their places."""
        return [key for key, history in self._history.items() if any(seen != history[0] for seen in history)]

    def take(self, keys: Sequence[Key] | None = None) -> None:
        """Look at what is left, or at some of it."""
        try:
            found = self._look(list(self._history) if keys is None else list(keys))
        except StopError as error:
            if self._failed is None:
                raise
            self._failed(error)
            self.drop()
            return
        for key, seen in found.items():
            if judge(seen) is None or follows(seen, self._history[key]):
                del self._history[key]
                self.agreed.append(key)
            else:
                self._history[key].append(seen)

    def among(self, keys: Iterable[Key]) -> list[Key]:
        """Those of them that are left."""
        return [key for key in keys if key in self._history]

    def drop(self) -> None:
        """Look at none of them any more."""
        self._history.clear()

    def outcome(self) -> RecheckOutcome:
        """The keys that differ. One whose places changed between looks is behind, not different; but what stays the
        same at a place where the row never belonged is a difference, however often the row changes where it belongs."""
        looked = RecheckOutcome()
        for key, history in self._history.items():
            last = history[-1]
            verdict = judge(last)
            if _moves(history):
                looked.in_motion += 1
                looked.moving.append(last.named or key)
            elif verdict is not None:
                looked.verdicts[last.named or key] = verdict
        return looked


def _moves(history: Sequence[Seen]) -> bool:
    *earlier, last = history
    changed = any((seen.targets, seen.mirrors) != (last.targets, last.mirrors) for seen in earlier)
    return changed and not (last.belongs or _stray(history) or _stays(history))


def _stays(history: Sequence[Seen]) -> bool:
    """Whether a node of a broadcast table has had the same at every look, which is not what the source has by now."""
    last = history[-1]
    wanted = last.source and last.source[1]
    nodes = [[seen.targets.get(node) for seen in history] for node in range(last.nodes)]
    nodes += [[seen.mirrors[name] for seen in history] for name in last.mirrors]
    return any(had[-1] != wanted and all(one == had[-1] for one in had) for had in nodes)


def _stray(history: Sequence[Seen]) -> bool:
    """Whether a place has had the same at every look, and it was the place of the source's row at none."""
    homes = {home for seen in history if seen.source for home in (seen.source[0], *range(seen.nodes))}
    first, *others = [seen.targets for seen in history]
    return any(
        place not in homes and all(targets.get(place) == digest for targets in others)
        for place, digest in first.items()
    )


def settle(
    all_looks: Sequence[Recheck],
    rechecks: int,
    seconds: float,
    sleep: Callable[[float], None],
    hurry: Hurry | None = None,
    pause: Callable[[float], None] | None = None,
) -> None:
    """Look at once, then up to `rechecks` times, `seconds` apart; ends early when nothing is left.

    hurry: has the stream bring everything at once for so many seconds; with it rows that kept changing are then looked
    at in quick succession, until each was seen to follow or their time is over. A row that comes and goes at the source
    may be away from its place at every look, and only that tells it from one that is lost.
    pause: instead of `sleep`, between two looks but for those.
    """
    for left in range(rechecks, -1, -1):
        for looks in all_looks:
            looks.take()
        if left == 0 or not any(looks.left for looks in all_looks):
            break
        (pause or sleep)(seconds)
    if hurry is not None:
        _watch(all_looks, sleep, hurry)


def _watch(all_looks: Sequence[Recheck], sleep: Callable[[float], None], hurry: Hurry) -> None:
    moving = {looks: keys for looks in all_looks if (keys := looks.changing)}
    if not moving:
        return
    if sum(map(len, moving.values())) > _WATCHED:
        log.info("too many rows keep changing to be watched", rows=sum(map(len, moving.values())))
        return
    hurry(_NOTICED + _WATCH_SECONDS)
    sleep(_NOTICED)
    for _ in range(round(_WATCH_SECONDS / _BETWEEN)):
        for looks in list(moving):
            looks.take(moving[looks])
            if not (left := looks.among(moving.pop(looks))):
                continue
            moving[looks] = left
        if not moving:
            return
        sleep(_BETWEEN)


def look_again(
    keys: Iterable[Key],
    look: LookUp,
    rechecks: int,
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    hurry: Hurry | None = None,
    pause: Callable[[float], None] | None = None,
) -> RecheckOutcome:
    """Look at suspect keys at once, then up to `rechecks` times, `seconds` apart; ends early when all agree.

    hurry, pause: as in `settle`.
    """
    looks = Recheck(keys, look)
    settle([looks], rechecks, seconds, sleep, hurry, pause)
    return looks.outcome()


@dataclass(frozen=True, slots=True)
class Difference:
    """One key that differs, for people and for the state."""

    table: str
    key: Key
    kind: Kind
    detail: str
    by_hand: str = ""  # as `Verdict.by_hand`


def describe(sessions: Sessions, planned: PlannedTable, key: Key, verdict: Verdict) -> Difference:
    """Say where the key is and where it belongs; for a different row also which columns differ.

    planned: the table, or one of a group.
    """
    places = planned.places
    holder = verdict.holders[0] if verdict.holders else planned
    others = ", ".join(str(places[place]) for place in verdict.elsewhere)
    home = "" if verdict.place is None else str(places[verdict.place])
    if verdict.mirrors or verdict.lacking or verdict.differing:
        return Difference(
            planned.table.full_name, key, verdict.kind, _at_nodes(sessions, holder, key, verdict), verdict.by_hand
        )
    match verdict.kind:
        case Kind.MISSING:
            detail = f"belongs in {home}"
        case Kind.EXTRA:
            detail = f"is in {others}, not at the source"
        case Kind.MISPLACED:
            detail = f"is in {name_of(holder) if verdict.belongs else others}, belongs in {verdict.belongs or home}"
        case Kind.DUPLICATED:
            detail = f"is in {home}, and in {others} too"
        case Kind.DIFFERENT:
            columns = differing_columns(sessions, holder, key, verdict.place or 0)
            detail = f"in {home}: {', '.join(columns) or 'changed while it was looked at'}"
            detail += f"; is in {others} too" if others else ""
        case Kind.TWICE:
            detail = f"is in {' and in '.join(name_of(one) for one in verdict.holders)}"
            detail += f"; the target has it in {others}" if others else ""
    return Difference(planned.table.full_name, key, verdict.kind, detail, verdict.by_hand)


def _at_nodes(sessions: Sessions, holder: PlannedTable, key: Key, verdict: Verdict) -> str:
    """Which nodes of a broadcast table have a row otherwise."""
    if verdict.mirrors:
        return f"{' and '.join(verdict.mirrors)}: not as at the first node, {name_of(holder)}"
    told = [f"is not in {holder.places[node]}" for node in verdict.lacking]
    for node in verdict.differing:
        columns = differing_columns(sessions, holder, key, node)
        told.append(f"in {holder.places[node]}: {', '.join(columns) or 'changed while it was looked at'}")
    return "; ".join(told)


def hurrier(settings: Settings, state: sa.Engine) -> Hurry:
    """Has the stream bring everything at once."""

    def hurry(seconds: float) -> None:
        with state.begin() as connection:
            migrations.hurry(connection, settings.name, seconds)

    return hurry


def look_up_keys(sessions: Sessions, tables: Sequence[PlannedTable]) -> LookUp:
    return lambda keys: look_up(sessions, tables, keys)
