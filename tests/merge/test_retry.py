"""Trying a write again: without end for what passes, a few times for duplicates, never for what another owns."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pymysql
import pytest

from migrate.merge.retry import until_done
from migrate.model.errors import MigrateError, OwnershipLost, ServerError, StopError
from migrate.settings import Consume

SETTINGS = Consume(retry_seconds=0.001, retry_max_seconds=0.004, refused_attempts=3)


class Attempts:
    """An action that fails with each of the errors in turn and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.made = self.renewed = 0
        self.stop = threading.Event()

    def __call__(self) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def run(self) -> str:
        return until_done(self, "t0/shop", SETTINGS, self.stop, again=self.renew, refused=self.refused)

    def renew(self) -> None:
        self.renewed += 1

    def refused(self, error: BaseException) -> MigrateError:
        return StopError(f"refused: {error}")


def deadlock() -> Exception:
    return pymysql.OperationalError(1213, "Deadlock")


def duplicate() -> Exception:
    return pymysql.IntegrityError(1062, "Duplicate")


@pytest.mark.parametrize(
    "make",
    [
        deadlock,
        lambda: pymysql.OperationalError(1205, "Lock wait"),
        lambda: pymysql.OperationalError(2013, "Lost connection"),
        lambda: pymysql.OperationalError(1290, "read-only"),
        lambda: pymysql.InterfaceError(0, ""),
        ConnectionResetError,
        lambda: ServerError("the server does not answer"),
    ],
)
def test_what_passes_is_tried_again_on_a_new_session_until_it_is_done(make: Callable[[], Exception]) -> None:
    attempts = Attempts(*(make() for _ in range(20)))
    assert attempts.run() == "done"
    assert (attempts.made, attempts.renewed) == (21, 20)


def test_a_duplicate_is_tried_a_few_times_as_a_copy_beside_may_cause_it() -> None:
    attempts = Attempts(duplicate(), duplicate())
    assert attempts.run() == "done"
    with pytest.raises(StopError, match=r"refused: .*1062"):
        Attempts(duplicate(), duplicate(), duplicate()).run()


def test_duplicates_are_counted_through_what_passes_in_between() -> None:
    attempts = Attempts(duplicate(), deadlock(), duplicate(), deadlock(), duplicate())
    with pytest.raises(StopError):
        attempts.run()
    assert attempts.made == 5


def test_what_the_target_refuses_is_not_tried_again() -> None:
    attempts = Attempts(pymysql.DataError(1406, "Data too long"))
    with pytest.raises(StopError, match=r"refused: .*Data too long") as caught:
        attempts.run()
    assert attempts.made == 1
    assert isinstance(caught.value.__cause__, pymysql.DataError)


def test_a_warning_is_named_like_a_refusal() -> None:
    attempts = Attempts(StopError("the server warned"))
    with pytest.raises(StopError, match="refused: the server warned"):
        attempts.run()
    assert attempts.made == 1


def test_a_lost_partition_ends_it_at_once() -> None:
    attempts = Attempts(OwnershipLost("lost"))
    with pytest.raises(OwnershipLost, match="lost"):
        attempts.run()
    assert attempts.made == 1


def test_a_defect_is_told_at_once_and_not_tried_again() -> None:
    attempts = Attempts(ZeroDivisionError())
    with pytest.raises(StopError) as raised:
        attempts.run()
    assert (type(raised.value.__cause__), attempts.made) == (ZeroDivisionError, 1)


def test_it_ends_when_asked_to_stop() -> None:
    attempts = Attempts(*(deadlock() for _ in range(1000)))
    attempts.stop.set()
    with pytest.raises(ServerError, match="t0/shop: stopped while a write was being tried again"):
        attempts.run()
    assert attempts.made == 1


def test_the_pauses_grow_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(*(deadlock() for _ in range(5)))
    pauses: list[float | None] = []

    def wait(seconds: float | None = None) -> bool:
        pauses.append(seconds)
        return False

    monkeypatch.setattr(attempts.stop, "wait", wait)
    attempts.run()
    assert pauses == [0.001, 0.002, 0.004, 0.004, 0.004]
