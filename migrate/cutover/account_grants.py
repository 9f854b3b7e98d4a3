"""What applications' accounts may write at a server, and the statements that take that from them and give it back."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from migrate.cutover import privileges
from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError
from migrate.mysql.grants import GRANT, covers
from migrate.mysql.quoting import printed

_WRITES = ("INSERT", "UPDATE", "DELETE")
_ALL = "ALL PRIVILEGES"
Statements = tuple[list[str], list[str]]


def revocations(server: LeftServer, accounts: Sequence[str], databases: Collection[str]) -> Statements:
    """As `grants`. Raises PreflightError when no account may write, or one whose writes cannot be taken."""
    for text in accounts:
        if any(on == "*.*" for _, on in _writes_of(server, _quoted(text), databases)):
            raise PreflightError(
                f"{_quoted(text)} may write by a grant on *.*, which cannot be taken from single databases",
                hint="give it grants by database, or use cutover.stop: read_only",
            )
    _refuse_wider(server, accounts, databases)
    taken, back = grants(server, accounts, databases)
    if not taken:
        raise PreflightError(
            f"'{server.name}': none of {', '.join(accounts)} may write by a grant of its own",
            hint="name the accounts, or roles, that hold the grants in cutover.accounts",
        )
    return taken, back


def _refuse_wider(server: LeftServer, accounts: Sequence[str], databases: Collection[str]) -> None:
    """Raise PreflightError for a grant by a pattern that is on other databases too: applications may still need these,
    or enter them."""
    every = [str(name) for (name,) in server.query("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")]
    others = [name for name in every if name not in databases]
    for text in accounts:
        for one in _grants_of(server, _quoted(text)):
            if not _writes(one["what"]) or not any(covers(one["database"], name) for name in databases):
                continue
            if wider := [name for name in others if covers(one["database"], name)]:
                raise PreflightError(
                    f"{_quoted(text)} may write by a grant on {one['database']}.{one['table']}, which is on database"
                    f" {wider[0]} too{f' and {len(wider) - 1} more' if wider[1:] else ''}: it cannot be taken from"
                    " single databases",
                    hint="give it grants by database, or use cutover.stop: read_only",
                )


def refuse_open(server: LeftServer, accounts: Sequence[str], databases: Collection[str]) -> None:
    """Once writes were taken: by the server's own word nobody who was to be stopped has any left, also none that was
    given since the check; by its grants as it shows them, and by the tables that it goes by. Raises PreflightError,
    ServerError."""
    taken, _ = grants(server, accounts, databases)
    if taken:
        raise PreflightError(
            f"'{server.name}': grants were given again while they were revoked: {'; '.join(taken)} has to be repeated",
            hint="find out who changes these accounts, and try again",
        )
    comers = refuse_others(server, accounts, databases)
    held_by = {*comers, *privileges.roles_of(server, comers), *privileges.roles_of_all(server)}
    if left := privileges.may_write(server, held_by, databases):
        raise PreflightError(
            f"'{server.name}': the server's privilege tables show that these accounts can still write:"
            f" {'; '.join(left)}",
            hint="revoke that by hand, or use cutover.stop: read_only",
        )


def refuse_others(server: LeftServer, accounts: Sequence[str], databases: Collection[str]) -> set[tuple[str, str]]:
    """Raise PreflightError when who is to be stopped may write all the same once the named accounts may not: by a role
    that is not named or that all accounts have, or by coming as an account of the same name at another host. Raises
    ServerError. Returns who comes as one of them, as (user, host)."""
    known = {named(text) for text in accounts}
    comers = known | {*privileges.members(server, [*known])}
    comers |= privileges.alike(server, {user for user, _ in comers})
    problems = [
        (f"{_written(*one)} may write too, which is not among cutover.accounts", f"name {'@'.join(one)} there")
        for one in sorted(comers - known)
        if _writes_of(server, _written(*one), databases)
    ]
    of_all = privileges.roles_of_all(server)
    for role in sorted(of_all):
        if _writes_of(server, _written(*role), databases):
            way = f"take that from {_written(*role)}, and grant the accounts what they write themselves"
            problems.append((f"every account may write by the role {_written(*role)}", way))
    for role, member in sorted(privileges.roles_of(server, comers).items()):
        if role not in known | of_all and _writes_of(server, _written(*role), databases):
            way = f"name {'@'.join(role)} in cutover.accounts" if role[1] else "grant the account what it writes itself"
            problems.append((f"{_written(*member)} may write by its role {_written(*role)} too", way))
    if problems:
        raise PreflightError(
            f"'{server.name}': " + "\n  - ".join(told for told, _ in problems),
            hint="; ".join(way for _, way in problems) + "; or use cutover.stop: read_only",
        )
    return comers


def grants(server: LeftServer, accounts: Sequence[str], databases: Collection[str]) -> Statements:
    """Statements that take writes to these databases from accounts, and those that give them back; by what the server
    shows that they were granted. Raises ServerError, also for an account that is not there."""
    quoted = [_quoted(text) for text in accounts]
    found = [(what, on, account) for account in quoted for what, on in _writes_of(server, account, databases)]
    return (
        [f"REVOKE {what} ON {on} FROM {account}" for what, on, account in found],
        [f"GRANT {what} ON {on} TO {account}" for what, on, account in found],
    )


def taking(back: str) -> str:
    """The REVOKE of `grants` that a GRANT of it undoes, as it was sent."""
    what, _, account = back.removeprefix("GRANT ").rpartition(" TO ")
    return f"REVOKE {what} FROM {account}"


def named(text: str) -> tuple[str, str]:
    """An account of the config as (user, host)."""
    user, _, host = text.replace("'", "").replace("`", "").rpartition("@")
    return (user, host) if user else (host, "%")


def _writes_of(server: LeftServer, account: str, databases: Collection[str]) -> list[tuple[str, str]]:
    """(Privileges that write, what they are on), as the server shows what an account, quoted, was granted."""
    return [
        (what, f"{one['database']}.{one['table']}")
        for one in _grants_of(server, account)
        if (what := _writes(one["what"])) and any(covers(one["database"], database) for database in databases)
    ]


def _grants_of(server: LeftServer, account: str) -> list[re.Match[str]]:
    lines = server.query(f"SHOW GRANTS FOR {account}")
    return [one for (line,) in lines if (one := GRANT.match(str(line))) is not None]


def _writes(what: str) -> str:
    """Of a grant's privileges those that write; "" for none. Grants on columns count."""
    if what.strip() == _ALL:
        return ", ".join(_WRITES)
    parts = re.split(r",\s*(?![^(]*\))", what)
    return ", ".join(part for part in parts if part.split("(", 1)[0].strip() in _WRITES)


def _quoted(text: str) -> str:
    user, host = named(text)
    return f"'{user}'@'{host}'"


def _written(user: str, host: str) -> str:
    """As SQL names an account, or a role of MariaDB, which has no host."""
    if not host:
        return printed(user)
    return "@".join("'" + part.replace("'", "''") + "'" for part in (user, host))
