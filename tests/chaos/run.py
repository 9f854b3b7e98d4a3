"""A chaos run: a whole migration under load and faults, with cutovers and rollbacks; then everything is compared."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pymysql

from examples.application import Server, Switch
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.errors import SandboxError
from sandbox.stack import Sandbox
from tests.chaos.crew import PROCESSES, Actor, Crew, Failure
from tests.chaos.faults import Faults
from tests.chaos.oracle import Finding, Oracle
from tests.chaos.switching import Switching
from tests.chaos.tables import TABLES, cold_keys
from tests.chaos.writer import Writer
from tests.forked import Migration

WRITERS = 3
LEASE = 3.0  # seconds
_TICK = 0.05
_KILLS_AT_MOST = 6  # while nothing arrives: a busy machine would see nothing but starts
_ROWS_AT_LEAST = 100
_BEFORE = 0.6  # of the kills happen before the first switch
_PASSWORD = "App-secret-1"  # of the applications' account


@dataclass(frozen=True)
class Plan:
    """`kills`: of processes, one each `gap` seconds before the first switch; the run goes on until they are done."""

    seed: int
    kills: int
    gap: float = 3.0
    pause: float = 0.15  # seconds between two transactions of a writer, on average
    fill: float = 1.0  # how many rows there are before the start
    patience: float = 900.0  # seconds that everything may take to arrive once the faults are over, and before


class Chaos:
    """One run on the given servers, which are restarted by it. `directory`: config, logs and the journal."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path, name: str, plan: Plan) -> None:
        self._box, self._kafka, self._name, self._plan = box, kafka, name, plan
        self._choice = Random(plan.seed)  # noqa: S311 - which faults
        self._began = time.monotonic()
        directory.mkdir(parents=True, exist_ok=True)
        self._journal = (directory / "journal.log").open("a", buffering=1)
        self.migration = Migration(box, directory, self._config(directory))
        self.oracle = Oracle(box, name)
        self.crew = Crew(self.migration, self._choice, self.note)
        self._user = f"{name}_app"[-32:]
        self.writers = [
            Writer(
                self._databases,
                lambda number=number: self._switch(number),  # type: ignore[misc]
                number,
                WRITERS,
                plan.seed,
                plan.pause,
                plan.fill,
            )
            for number in range(WRITERS)
        ]
        # The example warns of a state that is away for a moment; here it often is.
        logging.getLogger("application").setLevel(logging.ERROR)
        self._faults: Faults | None = None
        self._switching: Switching | None = None
        self.wrong: list[str] = []

    def note(self, line: str) -> None:
        """A line of the journal, with the seconds since the start."""
        self._journal.write(f"{time.monotonic() - self._began:8.2f} {line}\n")

    def close(self) -> None:
        for writer in self.writers:
            writer.end()
        self.crew.close()
        self._journal.close()
        for server in self._box.databases:  # a switch that was not made to its end may have left one so
            server.execute("SET GLOBAL read_only = 0")

    @property
    def summary(self) -> str:
        """What was done so far."""
        kills, counts = Counter(self.crew.kills), Counter(self._faults.counts if self._faults else {})
        if self._switching is not None:
            counts += self._switching.counts
            kills["command"] = counts.pop("command killed", 0)
        of_kills = ", ".join(f"{name} {count}" for name, count in sorted(kills.items()))
        others = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        changes = sum(writer.changes for writer in self.writers)
        done = sum(writer.transactions for writer in self.writers)
        at_targets = sum(writer.at_targets for writer in self.writers)
        return (
            f"{sum(kills.values())} kills ({of_kills}); {others}; {changes} changes in {done} transactions,"
            f" {at_targets} of them at the targets"
        )

    # -- steps

    def storm(self) -> None:
        """Start everything, write, and break things until most kills are done. Raises Failure."""
        self._create()
        self.migration.do("init")
        self._let_applications_in()
        for writer in self.writers:
            writer.start()
        faults = Faults(self._box, self._kafka, self.crew, self._name, LEASE, self._choice, self.note)
        self._faults = faults
        self.crew.start(PROCESSES)
        self._until(lambda: self._published(), "the publisher to begin", 120)
        copy = self.crew.add("copy", "copy")
        try:
            self._break_things(faults, copy)
        finally:
            faults.calm()
        self._until(lambda: copy.done, "the end of the copy", self._plan.patience)
        if not faults.counts["put back"]:  # what is lost is a difference until it comes again
            self.wrong += self._false_alarms()

    def switches(self) -> None:
        """Cutovers and rollbacks beside faults until all kills are done. Raises Failure."""
        assert self._faults is not None
        self._switching = Switching(
            self._box,
            self.migration,
            self._name,
            self.crew,
            self._faults,
            self._choice,
            self.note,
            self._written,
        )
        self._switching.begin()
        try:
            self._switching.there_and_back(self._plan.kills)
        finally:
            self._faults.calm()
        self._switching.settle()

    def _break_things(self, faults: Faults, copy: Actor) -> None:
        """Kills and other faults, at random moments; after every few kills only once rows have arrived since.

        Most of it happens after the copy, which reads what is there and so makes good what was lost before.
        """
        gap, enough = self._plan.gap, int(self._plan.kills * _BEFORE)
        next_kill = next_other = began = time.monotonic()
        seen = checked = 0
        while (kills := sum(self.crew.kills.values())) < enough:
            now = time.monotonic()
            if kills >= enough // 2 and not copy.done:
                if now > began + self._plan.patience:
                    raise Failure(f"the copy did not end within {self._plan.patience:.0f} s: {self._status()}")
            elif kills >= checked + _KILLS_AT_MOST:
                applied = self._applied()
                if applied > seen + _ROWS_AT_LEAST:
                    seen, checked, began = applied, kills, now
                elif now > began + self._plan.patience:
                    raise Failure(f"nothing arrived for {self._plan.patience:.0f} s: {self._status()}")
                else:
                    time.sleep(10 * _TICK)
            else:
                if now >= next_kill:
                    faults.kill()
                    next_kill = now + self._choice.expovariate(1 / gap)
                faults.may_lose = self._box.targets if copy.done else ()
                if now >= next_other:
                    faults.other()
                    next_other = now + self._choice.expovariate(1 / max(1.0, min(gap, 4.0)))
            faults.due()
            self._written()
            self.crew.tend()
            time.sleep(_TICK)

    def _applied(self) -> int:
        """Row changes that are at the target, so far; 0 while the state server does not answer."""
        try:
            with closing(self._box.targets[0].connect(f"{self._name}_state", read_timeout=5)) as connection:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT COALESCE(SUM(row_count), 0) FROM consumed")
                    found: Any = cursor.fetchone()
                    return int(found[0])
        except (pymysql.MySQLError, OSError):
            return 0

    def settle(self) -> float:
        """No more writes; everything arrives. Returns the seconds that took. Raises Failure when it does not."""
        for writer in self.writers:
            writer.stop()
        began = time.monotonic()
        for way in ((), ("--reverse",)):
            drain = self.crew.add(f"drain{''.join(way)}", *way, "drain", "--timeout", str(self._plan.patience))
            self._until(lambda drain=drain: drain.done, "everything to arrive", self._plan.patience)
        if self._switching is not None:
            self.wrong += self._switching.written_by_hand()
        return time.monotonic() - began

    def findings(self) -> list[Finding]:
        """What the oracle finds, broken record states included."""
        return sorted([*self.oracle.findings(self.writers), *self._broken_records()])

    def _false_alarms(self) -> list[str]:
        """What the scheduled check called a difference, while everything was on its way and none had been planted."""
        logs = sorted((self.migration.directory / "logs").glob("check-*.log"))
        lines = [line for log in logs for line in log.read_text("utf-8", "replace").splitlines()]
        self.note(f"the check made {sum(' checked ' in line for line in lines)} runs")
        return [line for line in lines if " a difference " in line]

    def verified(self) -> set[tuple[str, str]]:
        """(Table, kind) of each difference that `migrate verify` names."""
        answer = self.migration.ask("verify", accept=(0, 1))
        named = [
            (table["table"].partition(".")[2], one["kind"]) for table in answer["tables"] for one in table["named"]
        ]
        self.note(f"verify: {answer['rows']} rows, {answer['differences']} differences: {named}")
        if len(named) != answer["differences"] + answer["in_motion"]:
            raise Failure(f"verify names {named} of {answer['differences']} differences")
        return set(named)

    # -- parts of them

    def _create(self) -> None:
        database = f"{self._name}_src"
        self._box.source.execute(f"CREATE DATABASE {database} DEFAULT CHARACTER SET utf8mb4")
        for spec in TABLES:
            self._box.source.execute(f"CREATE TABLE {spec.name} ({spec.columns})", database=database)
            ids = cold_keys(spec, self._plan.fill)
            user = "user_id" in spec.columns
            rows = [f"({one}, {f'{one % 97}, ' if user else ''}'copied {one}', {one})" for one in ids]
            for start in range(0, len(rows), 500):
                columns = f"id, {'user_id, ' if user else ''}note, stamp"
                values = ", ".join(rows[start : start + 500])
                self._box.source.execute(f"INSERT INTO {spec.name} ({columns}) VALUES {values}", database=database)

    def _written(self) -> int:
        """Transactions that were acknowledged. Raises Failure when a writer has lost one, or ended."""
        for writer in self.writers:
            writer.check()
        return sum(writer.transactions for writer in self.writers)

    def _let_applications_in(self) -> None:
        """An account whom `read_only` stops, with rights on rows alone."""
        name, targets = self._name, self._box.targets
        places = [(self._box.source, f"{name}_src"), (targets[0], f"{name}_0"), (targets[1], f"{name}_1")]
        for server, database in [*places, (targets[0], f"{name}_state")]:
            server.execute(f"CREATE USER IF NOT EXISTS '{self._user}'@'%' IDENTIFIED BY '{_PASSWORD}'")
            server.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO '{self._user}'@'%'")

    def _databases(self, side: str) -> list[Any]:
        """Connections of an application to the databases of a side."""

        def connect(server: DatabaseServer, database: str) -> Any:
            return pymysql.connect(
                host=server.host,
                port=server.port,
                user=self._user,
                password=_PASSWORD,
                database=f"{self._name}_{database}",
                charset="utf8mb4",
                ssl_disabled=True,
                connect_timeout=5,
                read_timeout=60,
            )

        if side == "source":
            return [connect(self._box.source, "src")]
        return [connect(server, str(number)) for number, server in enumerate(self._box.targets)]

    def _switch(self, number: int) -> Switch:
        at = self._box.targets[0]
        state = Server(at.host, at.port, self._user, _PASSWORD, tls=False)
        return Switch(state, f"{self._name}_state", self._name, f"writer-{number}")

    def _published(self) -> bool:
        sql = "SELECT COUNT(*) FROM position"
        return bool(self._box.targets[0].query(sql, database=f"{self._name}_state")[0][0])

    def _until(self, condition: Any, what: str, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > ends:
                raise Failure(f"waited {seconds:.0f} s for {what} in vain: {self._status()}")
            self.crew.tend()
            time.sleep(_TICK)

    def _status(self) -> str:
        done = self.migration.run("status")
        return f"exit code {done.returncode}\n{done.stdout}"

    def _broken_records(self) -> list[Finding]:
        """Records that are *new* below the consumed prefix, or not at its end when all is drained."""
        rows = self._box.targets[0].query(
            "SELECT partition_no, message_offset, state, next_offset FROM record"
            " LEFT JOIN consumed USING (migration, topic_id, partition_no)"
            " WHERE state = 0 OR next_offset IS NULL OR message_offset >= next_offset",
            database=f"{self._name}_state",
        )
        return [Finding("record", (str(row[0]), str(row[1])), "not consumed", str(row)) for row in rows]

    def _config(self, directory: Path) -> str:
        def server(one: Any) -> str:
            return (
                f"host: {one.host}, port: {one.port}, user: {one.user}, password: '{one.password}', connect_timeout: 3"
            )

        name, targets = self._name, self._box.targets
        tables = "".join(spec.config(f"{name}_src") for spec in TABLES)
        return (
            f"name: {name}\n"
            f"state: {{{server(targets[0])}, database: {name}_state}}\n"
            f"sources: [{{name: main, {server(self._box.source)}}}]\n"
            f"targets: [{{name: t0, {server(targets[0])}}}, {{name: t1, {server(targets[1])}}}]\n"
            f"databases: {{ds_0: {{target: t0, database: {name}_0}}, ds_1: {{target: t1, database: {name}_1}}}}\n"
            f"kafka: {{bootstrap: '{self._kafka.bootstrap}', partitions: 4}}\n"
            "publish: {flush_seconds: 0.2, heartbeat_seconds: 0.5, transaction_rows: 20}\n"
            "consume: {merge_interval_seconds: 0.2, idle_seconds: 0.5, poll_messages: 50, compare_seconds: 3,"
            " retry_seconds: 0.2, retry_max_seconds: 2}\n"
            "commit: {idle_seconds: 0.5, cleanup_interval_seconds: 2, cleanup_age_seconds: 2}\n"
            "delay: {tiers_seconds: [0.5, 2]}\ncopy: {chunk_rows: 500, chunks_at_once: 2}\n"
            "verify: {recheck_seconds: 0.5, rechecks: 5, master: 'local[2]'}\n"
            "check: {interval_seconds: 2, wait_seconds: 10}\n"
            "cutover: {stop: read_only, wait_seconds: 1, freeze_seconds: 10}\n"
            f"lease: {{seconds: {LEASE}}}\nrun_dir: {directory / 'run'}\ntables:\n{tables}"
        )


def run(
    box: Sandbox, kafka: KafkaBroker, directory: Path, name: str, plan: Plan, control: bool = False
) -> tuple[list[str], str]:
    """The whole run. Returns what is wrong, a line each, and a summary.

    `control`: three differences are planted at the end; it is wrong then unless exactly these are found.
    """
    with closing(Chaos(box, kafka, directory, name, plan)) as chaos:
        try:
            chaos.storm()
            chaos.switches()
            seconds = chaos.settle()
            found = chaos.findings()
            wrong = _told(chaos, found, kafka) + chaos.wrong
            if not found:
                planted = chaos.oracle.plant() if control else []
                wrong += _control(planted, chaos.oracle.findings(chaos.writers)) if control else []
                verified = chaos.verified()
                if verified != {(one.table, _KINDS[one.kind]) for one in planted}:
                    wrong.append(f"`migrate verify` names {sorted(verified)}, and must name {planted}")
            return wrong, f"{chaos.summary}; all there after {seconds:.0f} s"
        except (Failure, SandboxError) as failure:
            return [str(failure)], chaos.summary


_KINDS = {"missing": "missing", "misplaced": "duplicated", "different": "different"}
"""How `migrate verify` calls what `Oracle.plant` does."""


def _told(chaos: Chaos, found: Sequence[Finding], kafka: KafkaBroker) -> list[str]:
    lines = []
    for one in found[:20]:
        lines.append(str(one))
        if one.table != "record":
            lines += [f"    {line}" for line in chaos.oracle.history(one, chaos.writers, kafka)]
    if len(found) > 20:
        lines.append(f"and {len(found) - 20} more")
    return lines


def _control(planted: Sequence[Finding], found: Sequence[Finding]) -> list[str]:
    wanted = [(one.table, one.key, one.kind) for one in planted]
    have = [(one.table, one.key, one.kind) for one in found]
    sys.stdout.write(f"planted and found: {have}\n" if have == wanted else "")
    return [] if have == wanted else [f"the oracle finds {have} after {wanted} was planted"]
