"""How consumers of one migration share its partitions: evenly, by leases (invariant one-committer).

Every consumer holds a lease that only says that it is there. From those, each knows how many partitions are its own
share: it takes free ones up to that, and gives up what it has above it, so that one that joined gets its part.
"""

from __future__ import annotations

from collections.abc import Sequence

from migrate.state.lease import Leases

_MEMBER = "member:"


def join(leases: Leases) -> None:
    """Be counted from now on."""
    leases.acquire(_member(leases))


def fair_share(leases: Leases, partitions: int) -> int:
    """How many of so many partitions are ours, by who is there now."""
    return share(partitions, leases.unexpired(_MEMBER), _member(leases))


def share(partitions: int, members: Sequence[str], me: str) -> int:
    """Shares differ by one at most; the first by name have the larger ones."""
    everyone = sorted({*members, me})
    each, more = divmod(partitions, len(everyone))
    return each + (everyone.index(me) < more)


def _member(leases: Leases) -> str:
    return _MEMBER + leases.holder.rpartition(":")[2]
