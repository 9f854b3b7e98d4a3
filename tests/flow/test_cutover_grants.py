"""A cutover that lacks a grant says so before the freeze; one that is denied in it leaves nobody locked out."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow import launcher
from tests.flow.test_cutover import Switched, connected, switched
from tests.forked import Child

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # 83 s; `make test` has these grants in tests/preflight
WRITES = "SELECT, INSERT, UPDATE, DELETE, LOCK TABLES, CREATE, TRIGGER"


class Service:
    """The account by which the service reaches the source, with what a cutover needs and no more."""

    def __init__(self, one: Switched) -> None:
        self.one, self.server, self.user = one, one.box.source, f"{one.flow.name[-20:]}_svc"
        mysql = self.server.flavour == "mysql"
        self.admin = "CONNECTION_ADMIN" if mysql else "CONNECTION ADMIN"
        self.closes = "SYSTEM_VARIABLES_ADMIN" if mysql else "READ ONLY ADMIN"
        monitor = "REPLICATION CLIENT" if mysql else "BINLOG MONITOR"
        self.server.execute(
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY 'Svc-secret-1'",
            f"GRANT REPLICATION SLAVE, {monitor}, PROCESS, {self.admin}, {self.closes} ON *.* TO '{self.user}'@'%'",
            f"GRANT {WRITES} ON {one.flow.database}.* TO '{self.user}'@'%'",
        )
        config = one.flow.migration.config
        address = f"port: {self.server.port}, user: "
        before, after = config.read_text("utf-8").split("sources:", 1)
        old = f"{address}{self.server.user}, password: '{self.server.password}'"
        assert old in after
        after = after.replace(old, f"{address}{self.user}, password: 'Svc-secret-1'", 1)
        config.write_text(f"{before}sources:{after}", "utf-8")

    def set(self, cutover: str) -> None:
        """The section `cutover` from now on."""
        config = self.one.flow.migration.config
        lines = [
            f"cutover: {cutover}" if line.startswith("cutover:") else line for line in config.read_text().split("\n")
        ]
        config.write_text("\n".join(lines), "utf-8")

    def without(self, privilege: str, on: str = "*.*") -> str:
        """What `migrate cutover` says while one is missing."""
        self.server.execute(f"REVOKE {privilege} ON {on} FROM '{self.user}'@'%'")
        said = refused(self.one)
        self.server.execute(f"GRANT {privilege} ON {on} TO '{self.user}'@'%'")
        return said


def refused(one: Switched, command: str = "cutover") -> str:
    before = one.writable()
    said = one.flow.refused(command)
    assert one.writable() == before
    return said


def test_every_grant_that_a_cutover_needs_is_asked_for_before_the_freeze(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        service = Service(one)
        one.flow.migration.ask("verify")
        one.flow.migration.do("cutover", "--rehearse")
        for privilege in ("PROCESS", service.admin, service.closes):
            said = service.without(privilege)
            assert f"GRANT {privilege} ON *.* TO '{service.user}'@'%'" in said, said
        said = service.without("LOCK TABLES", f"{one.flow.database}.*")
        assert f"lacks LOCK TABLES on database {one.flow.database}" in said, said
        service.set(f"{{stop: revoke, accounts: ['{one.at_source['user']}@%']}}")
        box.source.execute(f"GRANT SELECT ON {one.flow.database}.orders TO '{service.user}'@'%'")
        said = refused(one)
        assert f"lacks GRANT OPTION on database {one.flow.database}" in said, said
        assert "unless single grants" not in said, "no single grant gives it"
        assert "lacks SELECT on database mysql" in said, "all of it at once"
        assert "WITH GRANT OPTION" in said, said

        service.set("{stop: read_only, wait_seconds: 1}")
        one.flow.migration.ask("cutover")
        assert one.writable() == ["target"]
        box.source.execute(f"REVOKE {service.closes} ON *.* FROM '{service.user}'@'%'")
        said = refused(one, "rollback")  # which could not open the source again
        assert f"GRANT {service.closes} ON *.* TO '{service.user}'@'%'" in said, said


def test_a_revoke_that_is_denied_in_the_freeze_leaves_nobody_locked_out(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, service = one.flow, Service(one)
        service.set(f"{{stop: revoke, accounts: ['{one.at_source['user']}@%'], freeze_seconds: 30}}")
        option = f"GRANT OPTION ON {flow.database}.* FROM '{service.user}'@'%'"
        given = f"GRANT USAGE ON {flow.database}.* TO '{service.user}'@'%' WITH GRANT OPTION"
        box.source.execute(f"GRANT SELECT ON mysql.* TO '{service.user}'@'%'", given)
        flow.migration.ask("verify")

        late, held = held_at(one, "step:stop writes", "denied")
        box.source.execute(f"REVOKE {option}")
        held.unlink()
        assert late.wait(SLOW)
        said = late.log.read_text("utf-8")
        assert (late.returncode, "writes are given back" in said) == (7, True), said
        assert (one.side(), one.writable()) == ("source", ["source", "target"])
        assert flow.state_of("SELECT COUNT(*) FROM cutover WHERE finished IS NULL")[0][0] == 0

        box.source.execute(given)
        late, held = held_at(one, "step:drain", "taken")
        (guardian,) = Path(f"/proc/{late.pid}/task/{late.pid}/children").read_text("ascii").split()
        os.kill(int(guardian), signal.SIGKILL)
        late.kill()
        box.source.execute(f"REVOKE {option}")
        flow.nobody_switches()
        abort = subprocess.run(
            flow.migration.command("cutover", "--abort"), env=flow.migration.environment, capture_output=True, text=True
        )
        back = f"GRANT INSERT, UPDATE, DELETE ON `{flow.database}`.* TO '{one.at_source['user']}'@'%'"
        assert "writes are still stopped at 'main'" in abort.stderr, abort.stderr
        assert f"run there, with an account that may: {back}" in abort.stderr, abort.stderr
        box.source.execute(back)
        flow.migration.do("cutover", "--abort")
        with closing(connected(box.source, flow.database, one.at_source)) as connection:
            connection.cursor().execute("UPDATE orders SET value = value WHERE id = 0")
        assert one.side() == "source"


def held_at(one: Switched, where: str, label: str) -> tuple[Child, Path]:
    """A cutover that waits at a function, and the file that holds it there."""
    flow = one.flow
    held = flow.directory / f"held-{label}"
    child = Child(label, flow.directory / f"{label}.log", Path.cwd())
    child.start(
        launcher.command(flow.migration, "hold", where, 1, "cutover"),
        {**flow.migration.environment, "HELD_AT": str(held)},
    )
    wait(held.exists, f"the cutover to come to {where}")
    return child, held
