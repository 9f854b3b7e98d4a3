"""Suspect keys looked at again until they agree or the looks are used up: live writes are no differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from migrate.model.change import Key
from migrate.scroll.lookup import Seen, differing_columns, look_up
from migrate.scroll.sessions import Sessions
from migrate.target.groups import name_of
from migrate.target.plan import PlannedTable
from migrate.verify.kinds import Kind, Verdict, follows, judge

LookUp = Callable[[list[Key]], dict[Key, Seen]]


@dataclass(slots=True)
class Looked:
    """Keys that still differ after the last look, and how many kept changing while they were looked at."""

    verdicts: dict[Key, Verdict] = field(default_factory=dict)
    in_motion: int = 0


def look_again(
    keys: Iterable[Key], look: LookUp, rechecks: int, seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Looked:
    """Look at suspect keys at once, then up to `rechecks` times, `seconds` apart; ends early when all agree.

    A key whose target row is what its source row was at an earlier look is behind, not different.
    """
    history: dict[Key, list[Seen]] = {key: [] for key in keys}
    for left in range(rechecks, -1, -1):
        for key, seen in look(list(history)).items():
            if judge(seen) is None:
                del history[key]
            else:
                history[key].append(seen)
        if not history or left == 0:
            break
        sleep(seconds)
    looked = Looked()
    for key, (*earlier, last) in history.items():
        verdict = judge(last)
        if follows(last, earlier):
            looked.in_motion += 1
        elif verdict is not None:
            looked.verdicts[last.named or key] = verdict
    return looked


@dataclass(frozen=True, slots=True)
class Difference:
    """One key that differs, for people and for the state."""

    table: str
    key: Key
    kind: Kind
    detail: str


def describe(sessions: Sessions, planned: PlannedTable, key: Key, verdict: Verdict) -> Difference:
    """Say where the key is and where it belongs; for a different row also which columns differ.

    planned: the table, or one of a group.
    """
    places = planned.places
    holder = verdict.holders[0] if verdict.holders else planned
    others = ", ".join(str(places[place]) for place in verdict.elsewhere)
    home = "" if verdict.place is None else str(places[verdict.place])
    match verdict.kind:
        case Kind.MISSING:
            detail = f"belongs in {home}"
        case Kind.EXTRA:
            detail = f"is in {others}, not at the source"
        case Kind.MISPLACED:
            detail = f"is in {others}, belongs in {home}"
        case Kind.DUPLICATED:
            detail = f"is in {home}, and in {others} too"
        case Kind.DIFFERENT:
            columns = differing_columns(sessions, holder, key, verdict.place or 0)
            detail = f"in {home}: {', '.join(columns) or 'changed while it was looked at'}"
            detail += f"; is in {others} too" if others else ""
        case Kind.TWICE:
            detail = f"is in {' and in '.join(name_of(one) for one in verdict.holders)}"
            detail += f"; the target has it in {others}" if others else ""
    return Difference(planned.table.full_name, key, verdict.kind, detail)


def look_up_keys(sessions: Sessions, tables: Sequence[PlannedTable]) -> LookUp:
    return lambda keys: look_up(sessions, tables, keys)
