"""The demo's second half: cutover, writes on the new side, rollback, and a second cutover, under the application."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sandbox.demo.migration import Migration
from sandbox.demo.shop import Processes
from sandbox.errors import SandboxError
from sandbox.stack import Sandbox

Say = Callable[[str], None]
_PIECES = 60
"""Pieces of work that each process of the application does between two moves."""


BAR_SECONDS = 2.0
"""The longest freeze that is good enough for the demo."""


@dataclass(frozen=True, slots=True)
class Move:
    """freeze: seconds for which nobody could write, as migrate says; gap: between two writes of the application."""

    command: str
    freeze: float
    gap: float


@dataclass(slots=True)
class Moves:
    """rehearsed: the freeze that was predicted."""

    rehearsed: float = 0.0
    made: list[Move] = field(default_factory=list)
    writes: int = 0
    lost: list[str] = field(default_factory=list)
    differences: int = 0

    def too_slow(self) -> list[str]:
        """The moves whose freeze is above the bar, a line each."""
        return [
            f"the freeze of `migrate {move.command}` took {move.freeze:.2f} s, above the bar of {BAR_SECONDS:g} s"
            for move in self.made
            if move.freeze > BAR_SECONDS
        ]


class ThereAndBack:
    """The reverse stream beside a verified migration, and the moves. Close it."""

    def __init__(self, box: Sandbox, migration: Migration, say: Say) -> None:
        self._box, self._migration, self._say = box, migration, say
        self.moves = Moves()

    def close(self) -> None:
        self._migration.stop_reverse()

    def prepare(self) -> None:
        """The reverse stream, and the verification that a cutover asks for once that reads. Triggers of the source
        would do again what arrives over it: the application does without."""
        for schema, trigger in self._triggers():
            self._box.source.execute(f"DROP TRIGGER {schema}.{trigger}")
        self._say(self._migration.do("--reverse", "init").splitlines()[-2])
        self._migration.start_reverse()
        try:
            self._migration.wait(self._runs, 120.0, "the reverse stream to run")
            self._say(self._migration.do("verify").splitlines()[-1])
            self._migration.wait(
                lambda: self._migration.ask("status")["stage"] == "ready", 120.0, "a clean verification"
            )
        except SandboxError as error:
            now = self._migration.ask("status")
            raise SandboxError(f"{error}: {now['stage']}, held back by {now['holds_back']}") from error

    def _triggers(self) -> list[tuple[str, str]]:
        rows = self._box.source.query(
            "SELECT TRIGGER_SCHEMA, TRIGGER_NAME FROM information_schema.TRIGGERS"
            " WHERE TRIGGER_SCHEMA IN ('sakila', 'shop')"
        )
        return [(str(schema), str(name)) for schema, name in rows]

    def _runs(self) -> bool:
        self._migration.check_reverse()
        now = self._migration.ask("status")
        if now["next"] == "migrate verify --repair":  # which says nothing of the reverse stream
            return all(one["published"] for one in self._migration.ask("--reverse", "status")["sources"])
        return bool(now["stage"] == "ready" or now["next"] == "migrate verify")

    def go(self, shop: Processes, commands: Sequence[str] = ("cutover", "rollback", "cutover")) -> Moves:
        """There, back, and there, while the application, which was started, writes; it ends, and both sides are
        compared."""
        try:
            shop.wait_for(_PIECES)
            self.moves.rehearsed = float(self._migration.ask("cutover", "--rehearse")["freeze_seconds"])
            self._say(f"rehearsed: the freeze would take {self.moves.rehearsed:.2f} s")
            for command in commands:
                began = time.monotonic()
                report = self._migration.ask(command)
                frozen = float(report["freeze_seconds"])
                side = "new" if command == "cutover" else "old"
                self._say(
                    f"migrate {command}: nobody could write for {frozen:.2f} s; the application is on the {side} side"
                )
                self._say("  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in report["parts"].items()))
                shop.wait_for(_PIECES)
                self.moves.made.append(Move(command, frozen, shop.longest_gap(began)))
        finally:
            self.moves.writes = shop.stop()
        way = ["--reverse"] if commands[-1] == "cutover" else []
        self._migration.ask(*way, "drain", "--timeout", "300")
        self.moves.lost = shop.lost()
        found = self._migration.ask(*way, "verify", accept=(0, 1))
        self.moves.differences = int(found["differences"]) + int(found["in_motion"])
        return self.moves
