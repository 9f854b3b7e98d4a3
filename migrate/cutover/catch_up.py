"""From the last verification to the freeze: what changed is compared until little is left, and that again at rest
(invariant drain-before-switch)."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from migrate.cutover.changed_keys import ChangedKeys, KeysByTable
from migrate.cutover.left_server import settled
from migrate.model.errors import PreflightError, ServerError
from migrate.model.words import counted
from migrate.settings import Cutover, Settings
from migrate.state import compared, consumed_total, phase
from migrate.state.phase import Phase
from migrate.target.routing import Plan
from migrate.verify.catch_up import CatchUp
from migrate.verify.recheck import hurrier

_ROUNDS = 10
_POLL = 0.02


def pass_up_to(passing: CatchUp, seconds: float, stream: str = "the stream") -> None:
    """Wait until a stream has come to where it is to come. Raises ServerError when it does not in time."""
    if not settled(passing.passed, seconds, _POLL):
        raise ServerError(
            f"{stream} did not reach the end of the log within {seconds:.1f} s",
            hint="`migrate status` says what holds it back",
        )
    if passing.gone:
        raise next(iter(passing.gone.values()))


class StreamComparison:
    """Of one stream; knows up to which messages it has compared. For one thread; close it."""

    def __init__(
        self, stream: Settings, state: sa.Engine, plan: Plan, limits: Cutover, say: Callable[[str], None]
    ) -> None:
        self._name = stream.name
        self._state = state
        self._limits = limits
        self._say = say
        self._changed = ChangedKeys(stream, state, plan, limits.max_keys)
        with state.connect() as connection:
            self._offsets = self._noted = compared.load(connection, self._name)
        self._hurry, self._wait_seconds = hurrier(stream, state), stream.check.wait_seconds
        self._moving = KeysByTable()  # that kept changing while they were compared

    def close(self) -> None:
        self._changed.close()

    def catch_up(self) -> None:
        """Compare what changed since it was compared last, until little is left.

        Raises: PreflightError when it never is, DifferenceFound.
        """
        self._changed.prepare()
        for _ in range(_ROUNDS):
            self._hurry(self._wait_seconds)
            with self._state.connect() as connection:
                ends = consumed_total.prefixes(connection, self._name)
            keys = self._changed.read(self._offsets, ends)
            keys.merge(self._moving)
            self._say(f"{counted(len(keys), 'key')} changed since they were compared last")
            self._moving = self._changed.settle(keys, self._say) if len(keys) else KeysByTable()
            self._offsets = ends
            if not len(self._moving):
                with self._state.begin() as connection:
                    if not compared.advance(connection, self._name, self._noted, ends):
                        raise _forgotten()
                self._noted = ends
            if len(keys) <= self._limits.max_keys_frozen:
                return
        raise PreflightError(
            f"more than {self._limits.max_keys_frozen:,} keys change between two comparisons",
            hint="try again at a quieter time; or raise cutover.max_keys_frozen and cutover.freeze_seconds",
        )

    def refuse_forgotten(self, connection: sa.Connection) -> None:
        """Raise PreflightError when rows came by another way than the stream since; none do in the transaction."""
        if not compared.still(connection, self._name, self._noted):
            raise _forgotten()

    def look(self) -> KeysByTable:
        """Read what is left at both sides, as `compare` does, and say nothing of it. Returns the keys."""
        keys = self._left()
        self._changed.look(keys)
        return keys

    def settle(self, keys: KeysByTable) -> None:
        """Compare keys while rows change. Raises DifferenceFound."""
        self._changed.settle(keys, self._say)

    def compare(self) -> int:
        """Compare what is left, at rest. Returns how many keys. Raises DifferenceFound."""
        keys = self._left()
        self._changed.compare(keys)
        return len(keys)

    def _left(self) -> KeysByTable:
        with self._state.connect() as connection:
            ends = consumed_total.prefixes(connection, self._name)
        keys = self._changed.read(self._offsets, ends)
        keys.merge(self._moving)
        return keys


def refuse_copied_since(connection: sa.Connection, stream: str, plan: Plan, comparing: StreamComparison | None) -> None:
    """Raise PreflightError when a table is no more copied, or was again since it was compared; it stays so until the
    transaction ends, which has the switch locked. comparing: None when nothing was compared."""
    stages = phase.every(connection, stream, lock=True)
    for id_, planned in plan.tables.items():
        if (stage := stages.get(id_, Phase.CREATED)) is not Phase.COPIED:
            raise PreflightError(
                f"table {planned.table.full_name} is {stage} by now", hint="try again once `migrate status` says copied"
            )
    if comparing is not None:
        comparing.refuse_forgotten(connection)


def _forgotten() -> PreflightError:
    return PreflightError(
        f"since the last clean verification of all tables {compared.FORGOTTEN}",
        hint="run `migrate verify` over all tables, then try again",
    )
