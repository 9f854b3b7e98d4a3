"""Leases: one holder at a time, epochs that only rise, and a holder that knows when it must stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs

from migrate.model.errors import OwnershipLost
from migrate.settings import State
from migrate.state import database, lease
from migrate.state.lease import HeldLease, Leases
from tests.helpers import unique
from tests.waiting import until


@pytest.fixture
def make(state: sa.Engine) -> Iterator[Callable[..., Leases]]:
    """Processes of one migration."""
    migration = unique("leases")
    made: list[Leases] = []

    def leases(seconds: float = 60.0) -> Leases:
        made.append(Leases(state, migration, seconds, holder=f"process {len(made)}"))
        return made[-1]

    yield leases
    for each in made:
        each.close()


def expire(state: sa.Engine, of: Leases, end: str = "NOW(6) - INTERVAL 1 SECOND") -> None:
    """As if the holder had fallen silent for long; end: SQL for another end of all that it has."""
    with state.begin() as connection:
        connection.execute(
            sa.update(lease.table)
            .where(lease.table.c.holder == of.holder, lease.table.c.migration == of._migration)
            .values(expires=sa.text(end))
        )


def expires(state: sa.Engine, of: Leases) -> datetime:
    with state.connect() as connection:
        found: datetime = connection.execute(
            sa.select(lease.table.c.expires).where(lease.table.c.migration == of._migration)
        ).scalar_one()
    return found


def test_one_holder_at_a_time(make: Callable[..., Leases]) -> None:
    one, two = make(), make()
    assert one.acquire("commit") == HeldLease("commit", 1)
    assert two.acquire("commit") is None
    assert one.acquire("commit") is None
    assert two.acquire("requeue") == HeldLease("requeue", 1)
    assert one.check("commit") == HeldLease("commit", 1)
    with pytest.raises(OwnershipLost, match="lease 'commit' is no longer ours"):
        two.check("commit")


def test_a_lease_that_ran_out_goes_to_the_next_with_a_higher_epoch(
    state: sa.Engine, make: Callable[..., Leases]
) -> None:
    one, two = make(), make()
    held = one.acquire("commit")
    assert held is not None
    expire(state, one)
    later = two.acquire("commit")
    assert later == HeldLease("commit", 2)
    with state.begin() as connection, pytest.raises(OwnershipLost, match="lease 'commit' is held by process 1 now"):
        one.still_ours(connection, held)
    with state.begin() as connection:
        two.still_ours(connection, later)
    one.renew()  # finds that it was taken
    with pytest.raises(OwnershipLost):
        one.check("commit")
    assert two.check("commit") == later


def test_the_same_process_may_take_it_again_and_its_older_epoch_is_over(
    state: sa.Engine, make: Callable[..., Leases]
) -> None:
    one = make()
    held = one.acquire("commit")
    assert held is not None
    expire(state, one)
    assert one.acquire("commit") == HeldLease("commit", 2)
    with state.begin() as connection, pytest.raises(OwnershipLost):
        one.still_ours(connection, held)


def test_a_released_lease_need_not_be_waited_for(make: Callable[..., Leases]) -> None:
    one, two = make(), make()
    one.acquire("commit")
    one.release("commit")
    one.release("never held")
    with pytest.raises(OwnershipLost):
        one.check("commit")
    assert two.acquire("commit") == HeldLease("commit", 2)


def test_closing_gives_everything_back_but_nothing_of_others(make: Callable[..., Leases]) -> None:
    one, two, three = make(), make(), make()
    one.acquire("a")
    one.acquire("b")
    two.acquire("c")
    one.close()
    assert three.acquire("a") == HeldLease("a", 2)
    assert three.acquire("b") == HeldLease("b", 2)
    assert three.acquire("c") is None


def test_giving_back_what_another_took_over_does_not_end_its_lease(
    state: sa.Engine, make: Callable[..., Leases]
) -> None:
    one, two, three = make(), make(), make()
    one.acquire("a")
    expire(state, one)
    two.acquire("a")
    one.close()
    assert three.acquire("a") is None


def test_a_second_process_stands_by_and_takes_over(make: Callable[..., Leases]) -> None:
    one, two = make(), make()
    one.acquire("commit")
    taken: list[HeldLease | None] = []
    waiting = threading.Thread(target=lambda: taken.append(two.wait("commit", threading.Event(), 0.02)))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    one.release("commit")
    waiting.join(10)
    assert taken == [HeldLease("commit", 2)]


def test_standing_by_ends_when_asked_to_stop(make: Callable[..., Leases]) -> None:
    one, two = make(), make()
    one.acquire("commit")
    stop = threading.Event()
    taken: list[HeldLease | None] = []
    waiting = threading.Thread(target=lambda: taken.append(two.wait("commit", stop, 0.02)))
    waiting.start()
    stop.set()
    waiting.join(10)
    assert taken == [None]


def test_a_holder_that_cannot_renew_stops_by_its_own_clock(make: Callable[..., Leases]) -> None:
    one = make(0.3)  # nobody renews it
    one.acquire("commit")
    assert one.check("commit")

    def over() -> bool:
        try:
            one.check("commit")
        except OwnershipLost:
            return True
        return False

    until(over)


def test_the_thread_renews_well_before_the_end(state: sa.Engine, make: Callable[..., Leases]) -> None:
    one = make(2.0)
    one.acquire("commit")
    first = expires(state, one)
    one.start()
    until(lambda: expires(state, one) > first)
    assert one.check("commit")


def test_renewing_keeps_a_holder_good_by_its_own_clock(make: Callable[..., Leases]) -> None:
    one = make(2.0)
    one.acquire("commit")
    began = time.monotonic()
    while time.monotonic() < began + 2.5:
        one.renew()
        assert one.check("commit")


def test_a_lease_given_back_and_taken_again_during_a_renewal_is_not_lost(
    state: sa.Engine, make: Callable[..., Leases]
) -> None:
    one = make()
    one.acquire("commit")

    taken: list[HeldLease | None] = []

    def between(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if statement.startswith("UPDATE lease") and not taken:
            taken.append(None)
            one.release("commit")
            taken[0] = one.acquire("commit")

    sa.event.listen(state, "before_cursor_execute", between)
    try:
        one.renew()
    finally:
        sa.event.remove(state, "before_cursor_execute", between)
    assert taken == [HeldLease("commit", 2)]
    assert one.check("commit") == HeldLease("commit", 2)


def test_nobody_takes_over_while_a_transaction_relies_on_the_lease(
    state: sa.Engine, make: Callable[..., Leases]
) -> None:
    one, two = make(), make()
    held = one.acquire("commit")
    assert held is not None
    taken: list[HeldLease | None] = []
    taking = threading.Thread(target=lambda: taken.append(two.acquire("commit")))
    with state.begin() as connection:
        expire(state, one)
        one.still_ours(connection, held)
        taking.start()
        taking.join(0.3)
        assert taking.is_alive()
    taking.join(90)
    assert taken == [HeldLease("commit", 2)]


def test_a_process_frozen_inside_a_transaction_does_not_keep_others_from_taking_over(
    state_settings: State, make: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session lives on, and says nothing."""
    monkeypatch.setattr(database, "SILENT_SECONDS", 1)
    frozen = database.engine(state_settings)
    one, two = make(0.5), make()
    held = one.acquire("commit")
    assert held is not None
    stop = threading.Event()
    alarm = threading.Timer(40, stop.set)  # sooner than the wait for a lock ends by itself
    alarm.start()
    with frozen.connect() as connection:
        one.still_ours(connection, held)
        assert two.wait("commit", stop, 0.02) == HeldLease("commit", 2)
        with pytest.raises(DBAPIError):
            connection.execute(sa.text("SELECT 1"))
    alarm.cancel()
    frozen.dispose()


def test_standing_by_outlasts_a_state_server_that_refuses(
    state_settings: State, make: Callable[..., Leases], state: sa.Engine
) -> None:
    """The lock on the lease is waited for in vain first, as while the server is read-only or away."""
    one = make(0.5)
    held = one.acquire("commit")
    assert held is not None
    impatient = database.engine(state_settings)
    with impatient.connect() as session:
        session.execute(sa.text("SET SESSION innodb_lock_wait_timeout = 1"))
    two = Leases(impatient, one._migration, 60.0, holder="impatient")
    taken: list[HeldLease | None] = []
    taking = threading.Thread(target=lambda: taken.append(two.wait("commit", threading.Event(), 0.02)))
    with capture_logs() as logs:
        with state.begin() as connection:
            one.still_ours(connection, held)
            taking.start()
            until(lambda: any("refuses" in entry["event"] for entry in logs))
        taking.join(30)
    assert taken == [HeldLease("commit", 2)]
    two.close()
    impatient.dispose()


def test_two_processes_that_ask_at_once_get_one_lease(make: Callable[..., Leases]) -> None:
    processes = [make() for _ in range(6)]
    for round_ in range(1, 4):
        with ThreadPoolExecutor(len(processes)) as threads:
            taken = [held for held in threads.map(lambda each: each.acquire("commit"), processes) if held]
        assert taken == [HeldLease("commit", round_)]
        for each in processes:
            each.release("commit")


def test_migrations_do_not_share_leases(state: sa.Engine) -> None:
    one, two = (Leases(state, unique("other"), 60.0) for _ in range(2))
    try:
        assert one.holder != two.holder
        assert one.acquire("commit") == two.acquire("commit") == HeldLease("commit", 1)
    finally:
        one.close()
        two.close()


def test_leases_by_prefix_are_those_held_now_and_long_unused_ones_are_forgotten(
    state: sa.Engine, make: Callable[..., Leases]
) -> None:
    here, gone, other = make(), make(), make()
    for each, name in ((here, "member:a"), (gone, "member:b"), (other, "else")):
        assert each.acquire(name)
    long_ago = sa.text("NOW(6) - INTERVAL 2 DAY")
    with state.begin() as connection:
        mine = lease.table.c.migration == here._migration
        connection.execute(
            sa.update(lease.table).where(mine, lease.table.c.name == "member:b").values(expires=long_ago)
        )
        made = {"migration": here._migration, "name": "member:c", "holder": "", "epoch": 0, "expires": long_ago}
        connection.execute(sa.insert(lease.table).values(made))  # as `acquire` leaves it between its two steps
    assert here.unexpired("member:") == ["member:a"]
    with state.connect() as connection:
        names = connection.execute(sa.select(lease.table.c.name).where(mine).order_by(lease.table.c.name)).scalars()
        assert list(names) == ["else", "member:a", "member:c"]


def test_which_leases_are_lost_is_told_by_holder_and_epoch(state: sa.Engine, make: Callable[..., Leases]) -> None:
    one, two = make(), make()
    held = [one.acquire("a"), one.acquire("b")]
    assert held[0] is not None
    assert held[1] is not None
    expire(state, one)
    assert two.acquire("b")
    with state.begin() as connection:
        assert one.lost(connection, [held[0], held[1]]) == {"b"}
        assert one.lost(connection, [HeldLease("a", 7), HeldLease("never", 1)]) == {"a", "never"}


def set_clock_back(state: sa.Engine, of: Leases) -> None:
    """As if the server's clock had been a day ahead when a process last renewed what it has."""
    expire(state, of, "NOW(6) + INTERVAL 1 DAY")


def gone(state: sa.Engine, make: Callable[..., Leases], *names: str) -> Leases:
    """A process that was killed before the clock was set back, whose leases are for a second."""
    dead = make(1.0)
    for name in names:
        dead.acquire(name)
    set_clock_back(state, dead)
    return dead


def test_a_lease_of_the_dead_ends_where_the_clock_was_set_back(state: sa.Engine, make: Callable[..., Leases]) -> None:
    """Lost: for as long as the state server's clock had been ahead nobody published, and a cutover whose machine was
    lost in its freeze could be neither gone on with nor taken back: applications could not write."""
    gone(state, make, "commit", "cutover")
    began = time.monotonic()
    one, two = make(), make()
    assert one.acquire("commit") is None, "at first sight nobody knows that it is not renewed"
    assert one.wait("commit", threading.Event(), 0.05) == HeldLease("commit", 2)
    assert two.take("cutover") == HeldLease("cutover", 2)
    assert time.monotonic() - began > 1.0


def test_a_lease_of_the_living_is_theirs_where_the_clock_was_set_back(
    state: sa.Engine, make: Callable[..., Leases]
) -> None:
    living = make(60.0)
    held = living.acquire("commit")
    set_clock_back(state, living)
    other = make(0.01)
    assert other.acquire("commit") is None
    living.renew()
    assert other.take("commit") is None
    assert living.check("commit") == held


def test_members_that_are_dead_do_not_count_where_the_clock_was_set_back(
    state: sa.Engine, make: Callable[..., Leases]
) -> None:
    """Lost: half of the partitions were nobody's for as long as the clock had been ahead."""
    gone(state, make, "member:dead")
    one = make()
    one.acquire("member:one")
    assert sorted(one.unexpired("member:")) == ["member:dead", "member:one"]
    until(lambda: one.unexpired("member:") == ["member:one"], "the dead member is not counted")
