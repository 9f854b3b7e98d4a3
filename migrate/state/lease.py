"""Leases: who may act, and in which epoch. They stand in for a coordination service.

Time is the state server's. A holder renews well before the end; when it cannot, its own monotonic clock tells
it that it may no longer act, before the server's clock lets another one in. Where that clock was set back, a lease ends
later than anybody could have set it now: then it is free once nobody renewed it for as long as it was taken for, by the
monotonic clock of who waits.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.mysql import insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from migrate.metrics import shared
from migrate.model.errors import OwnershipLost
from migrate.mysql.errors import passes, text
from migrate.state.database import metadata, now

table = sa.Table(
    "lease",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("name", sa.String(80), primary_key=True),
    sa.Column("holder", sa.String(120)),
    sa.Column("epoch", sa.BigInteger),
    sa.Column("expires", sa.DateTime),
    sa.Column("seconds", sa.Double),
)
_LOOK_SECONDS = 0.5
log = structlog.get_logger("migrate.lease")


_END = sa.func.timestampadd(sa.text("MICROSECOND"), table.c.seconds * 1_000_000, now)
"""Of a lease that is taken now."""
_LOOKED_AT = [
    table.c.name,
    table.c.holder,
    table.c.epoch,
    table.c.expires,
    table.c.seconds,
    (table.c.expires < now).label("ended"),
    sa.func.coalesce(table.c.expires > _END, sa.false()).label("beyond"),
]


@dataclass(frozen=True, slots=True)
class HeldLease:
    name: str
    epoch: int


@dataclass(frozen=True, slots=True)
class _Watched:
    """A lease of another's, and since when it is like that, by our monotonic clock."""

    found: tuple[object, ...]
    since: float


def new_holder() -> str:
    """A name for one run of one process: host, process id, and a random part."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(4)}"


def holders(connection: sa.Connection, migration: str) -> dict[str, str]:
    """Who holds each lease now, by its name: host and process id."""
    rows = connection.execute(
        sa.select(table.c.name, table.c.holder).where(table.c.migration == migration, table.c.expires >= now)
    )
    return {str(name): str(holder).rpartition(":")[0] for name, holder in rows}


@dataclass(frozen=True, slots=True)
class LastHolder:
    """Of a lease, also once it ran out. holder: host and process id; taken: how often it was."""

    holder: str
    taken: int


def last_holders(connection: sa.Connection, migration: str) -> dict[str, LastHolder]:
    """Who had each lease last, by its name."""
    rows = connection.execute(
        sa.select(table.c.name, table.c.holder, table.c.epoch).where(table.c.migration == migration)
    )
    return {str(name): LastHolder(str(holder).rpartition(":")[0], int(epoch)) for name, holder, epoch in rows}


class Leases:
    """The leases of one process, renewed by a thread until `close()`.

    quiet: those of a command that stands in for a moment; what it takes is not logged.
    """

    def __init__(
        self, engine: sa.Engine, migration: str, seconds: float, holder: str | None = None, *, quiet: bool = False
    ) -> None:
        self.holder = holder or new_holder()
        self._engine = engine
        self._migration = migration
        self._seconds = seconds
        self._quiet = quiet
        self._held: dict[str, HeldLease] = {}
        self._good_until: dict[str, float] = {}
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}  # of others, that end later than they can
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew_forever, name="lease-renewal", daemon=True)

    def start(self) -> Leases:
        self._thread.start()
        return self

    def acquire(self, name: str) -> HeldLease | None:
        """Take a lease that is free or run out; None while another holder has it. The epoch rises by one."""
        asked = time.monotonic()
        first = {
            "migration": self._migration,
            "name": name,
            "holder": "",
            "epoch": 0,
            "expires": sa.text("'2000-01-01'"),
        }
        with self._engine.begin() as connection:
            connection.execute(insert(table).values(first).prefix_with("IGNORE"))
        with self._engine.begin() as connection:  # apart: two that held the shared lock of a duplicate would deadlock
            row = connection.execute(sa.select(*_LOOKED_AT).where(*self._named(name)).with_for_update()).one()
            if not row.ended and not self._outlived(row):
                return None
            epoch = int(row.epoch) + 1
            taken = {"holder": self.holder, "epoch": epoch, **self._lasts()}
            connection.execute(sa.update(table).where(*self._named(name)).values(taken))
        held = HeldLease(name, epoch)
        with self._lock:
            self._held[name] = held
            self._good_until[name] = asked + self._seconds
        if not self._quiet:
            shared.lease_taken()
            log.info("lease taken", lease=name, epoch=epoch)
        return held

    def take(self, name: str) -> HeldLease | None:
        """As `acquire`, for who does not stand by: a lease that ends later than it can is looked at for as long as it
        may be renewed, and is then ours, or another's who lives."""
        while (held := self.acquire(name)) is None and name in self._watched:
            if self._stopped.wait(_LOOK_SECONDS):
                return None
        return held

    def _lasts(self) -> dict[str, object]:
        """What is stored of a lease that is taken or renewed now."""
        ends = sa.text(f"NOW(6) + INTERVAL {int(self._seconds * 1_000_000)} MICROSECOND")
        return {"expires": ends, "seconds": self._seconds}

    def _outlived(self, row: Any) -> bool:
        """Whether a lease that ends later than it can was not renewed for as long as it was taken for."""
        if not row.beyond:
            self._watched.pop(row.name, None)
            return False
        found = (row.holder, row.epoch, row.expires)
        if (seen := self._watched.get(row.name)) is None or seen.found != found:
            seen = self._watched[row.name] = _Watched(found, time.monotonic())
        return time.monotonic() - seen.since > float(row.seconds)

    def raise_above(self, name: str, epoch: int, connection: sa.Connection) -> HeldLease:
        """Give a lease of ours an epoch above one that was found elsewhere: the state was put back to an earlier one.

        connection: in a transaction, which may be done again.

        Raises OwnershipLost when the lease is another's.
        """
        with self._lock:
            held = self._held.get(name)
        if held is None:
            raise OwnershipLost(f"lease '{name}' is no longer ours", hint="another process took over; this one ends")
        later = HeldLease(name, max(held.epoch, epoch) + 1)
        mine = (*self._named(name), table.c.holder == self.holder)
        changed = connection.execute(
            sa.update(table).where(*mine, table.c.epoch.in_([held.epoch, later.epoch])).values(epoch=later.epoch)
        ).rowcount
        if not changed:
            raise OwnershipLost(f"lease '{name}' is held by another", hint="another process took over; this one ends")
        log.warning("the state database knew an older epoch", lease=name, was=held.epoch, epoch=later.epoch)
        return later

    def raised(self, held: HeldLease, later: HeldLease) -> None:
        """That transaction is committed."""
        with self._lock:
            if self._held.get(held.name) == held:
                self._held[held.name] = later

    def wait(self, name: str, stop: threading.Event, poll_seconds: float = 0.5) -> HeldLease | None:
        """Stand by until the lease is ours, also while the state server is away; None when `stop` was set first."""
        told = False
        while not stop.is_set():
            try:
                if held := self.acquire(name):
                    return held
            except DBAPIError as error:
                if not passes(error.orig or error):
                    raise
                log.warning("standing by, the state database refuses", lease=name, error=text(error.orig or error))
            if not told:
                log.info("standing by", lease=name)
                told = True
            stop.wait(poll_seconds)
        return None

    def unexpired(self, prefix: str) -> list[str]:
        """The names of all leases that begin so and are held by anyone now. Forgets those long out of use."""
        alike = (table.c.migration == self._migration, table.c.name.startswith(prefix, autoescape=True))
        with self._engine.begin() as connection:
            rows = connection.execute(sa.select(*_LOOKED_AT).where(*alike)).all()
            if any(row.ended for row in rows):
                old = table.c.expires < sa.text("NOW(6) - INTERVAL 1 DAY")
                had = table.c.holder != ""  # without one it was only made a moment ago, and is being taken
                connection.execute(sa.delete(table).where(*alike, old, had))
        return [str(row.name) for row in rows if not row.ended and not self._outlived(row)]

    def check(self, name: str) -> HeldLease:
        """The lease as held now. Raises OwnershipLost when it is not surely ours any more."""
        with self._lock:
            held = self._held.get(name)
            good = self._good_until.get(name, 0.0)
        if held is None or time.monotonic() >= good:
            raise OwnershipLost(f"lease '{name}' is no longer ours", hint="another process took over; this one ends")
        return held

    def still_ours(self, connection: sa.Connection, held: HeldLease) -> None:
        """Check inside a state transaction, and keep others from taking it before that commits."""
        row = connection.execute(
            sa.select(table.c.holder, table.c.epoch).where(*self._named(held.name)).with_for_update(read=True)
        ).one()
        if (row[0], int(row[1])) != (self.holder, held.epoch):
            raise OwnershipLost(f"lease '{held.name}' is held by {row[0]} now", hint="this process ends")

    def lost(self, connection: sa.Connection, held: Iterable[HeldLease]) -> set[str]:
        """Names of those that are another's now, asked as `still_ours` asks: the rest is ours until the commit."""
        mine = {lease.name: lease for lease in held}
        rows = connection.execute(
            sa.select(table.c.name, table.c.holder, table.c.epoch)
            .where(table.c.migration == self._migration, table.c.name.in_(mine))
            .with_for_update(read=True)
        )
        found = {row[0]: (row[1], int(row[2])) for row in rows}
        return {name for name, lease in mine.items() if found.get(name) != (self.holder, lease.epoch)}

    def release(self, name: str) -> None:
        """Give a lease back so that another holder need not wait for its end."""
        with self._lock:
            held = self._held.pop(name, None)
            self._good_until.pop(name, None)
        if held is not None:
            self._expire([held])

    def close(self) -> None:
        """Stop renewing and give everything back."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        with self._lock:
            held, self._held, self._good_until = list(self._held.values()), {}, {}
        if held:
            self._expire(held)

    def _expire(self, held: list[HeldLease]) -> None:
        try:
            with self._engine.begin() as connection:
                for lease in held:
                    connection.execute(
                        sa.update(table)
                        .where(*self._named(lease.name), table.c.holder == self.holder, table.c.epoch == lease.epoch)
                        .values(expires=now)
                    )
        except SQLAlchemyError as error:
            log.warning("lease not given back; it runs out by itself", error=str(error.__cause__ or error))

    def _named(self, name: str) -> tuple[sa.ColumnElement[bool], ...]:
        return table.c.migration == self._migration, table.c.name == name

    def _renew_forever(self) -> None:
        while not self._stopped.wait(self._seconds / 4):
            try:
                self.renew()
            except Exception as error:  # whatever it is: without this thread all would be lost for good
                log.warning("lease not renewed", error=str(error.__cause__ or error))

    def renew(self) -> None:
        """Extend every lease that is still ours; forget those that another holder took."""
        with self._lock:
            held = list(self._held.values())
        for lease in held:
            asked = time.monotonic()
            with self._engine.begin() as connection:
                found = connection.execute(
                    sa.update(table)
                    .where(*self._named(lease.name), table.c.holder == self.holder, table.c.epoch == lease.epoch)
                    .values(self._lasts())
                ).rowcount
            with self._lock:
                if self._held.get(lease.name) != lease:
                    continue  # given back meanwhile, or taken anew
                if found:
                    self._good_until[lease.name] = asked + self._seconds
                else:
                    shared.lease_lost()
                    log.error("lease lost", lease=lease.name)
                    del self._held[lease.name], self._good_until[lease.name]
