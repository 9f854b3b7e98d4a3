"""A chaos run: a whole migration under load and faults, then silence, and the comparison of everything."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pymysql

from sandbox.broker import KafkaBroker
from sandbox.errors import SandboxError
from sandbox.stack import Sandbox
from tests.chaos.crew import Actor, Crew, Failure
from tests.chaos.faults import Faults
from tests.chaos.oracle import Finding, Oracle
from tests.chaos.tables import TABLES, cold_keys
from tests.chaos.writer import Writer
from tests.forked import Migration

WRITERS = 3
LEASE = 3.0  # seconds
_TICK = 0.05
_KILLS_AT_MOST = 6  # while nothing arrives: a busy machine would see nothing but starts
_ROWS_AT_LEAST = 100


@dataclass(frozen=True)
class Plan:
    """`kills`: of processes, spread over about `seconds`; the run goes on until they are done."""

    seed: int
    seconds: float
    kills: int
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
        self.writers = [
            Writer(
                lambda: box.source.connect(f"{name}_src", read_timeout=60),
                number,
                WRITERS,
                plan.seed,
                plan.pause,
                plan.fill,
            )
            for number in range(WRITERS)
        ]
        self.summary = ""
        self.put_back = False  # a target came back with less: what it lost was a difference until it came again

    def note(self, line: str) -> None:
        """A line of the journal, with the seconds since the start."""
        self._journal.write(f"{time.monotonic() - self._began:8.2f} {line}\n")

    def close(self) -> None:
        for writer in self.writers:
            writer.end()
        self.crew.close()
        self._journal.close()

    # -- steps

    def storm(self) -> None:
        """Start everything, write, and break things until the kills are done. Raises Failure."""
        self._create()
        self.migration.do("init")
        for writer in self.writers:
            writer.start()
        faults = Faults(self._box, self._kafka, self.crew, self._name, LEASE, self._choice, self.note)
        self.crew.tend()
        self._until(lambda: self._published(), "the publisher to begin", 120)
        copy = self.crew.add("copy", "copy")
        try:
            self._break_things(faults, copy)
        finally:
            faults.end()
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.crew.kills.items()))
        self.put_back = bool(faults.counts["put back"])
        others = ", ".join(f"{name} {count}" for name, count in sorted(faults.counts.items()))
        self.summary = f"{sum(self.crew.kills.values())} kills ({kills}); {others}; {self._applied()} changes applied"

    def _break_things(self, faults: Faults, copy: Actor) -> None:
        """Kills and other faults, at random moments; after every few kills only once rows have arrived since.

        Most of it happens after the copy, which reads what is there and so makes good what was lost before.
        """
        gap = self._plan.seconds / self._plan.kills
        next_kill = next_other = began = time.monotonic()
        seen = checked = 0
        while (kills := sum(self.crew.kills.values())) < self._plan.kills:
            now = time.monotonic()
            if kills >= self._plan.kills // 3 and not copy.done:
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
                faults.copied = copy.done
                if now >= next_other:
                    faults.other()
                    next_other = now + self._choice.expovariate(1 / max(1.0, min(gap, 4.0)))
            faults.due()
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
        changes = sum(writer.changes for writer in self.writers)
        transactions = sum(writer.transactions for writer in self.writers)
        self.summary += f"; in all {changes} changes in {transactions} transactions"
        began = time.monotonic()
        drain = self.crew.add("drain", "drain", "--timeout", str(self._plan.patience))
        self._until(lambda: drain.done, "everything to arrive", self._plan.patience)
        return time.monotonic() - began

    def findings(self) -> list[Finding]:
        """What the oracle finds, broken record states included."""
        return sorted([*self.oracle.findings(self.writers), *self._broken_records()])

    def false_alarms(self) -> list[str]:
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
        tables = "".join(f"  - name: {name}_src.{spec.name}\n    sharding:\n{spec.sharding()}" for spec in TABLES)
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
            "verify: {recheck_seconds: 0.5, rechecks: 3}\ncheck: {interval_seconds: 2, wait_seconds: 10}\n"
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
            seconds = chaos.settle()
            found = chaos.findings()
            wrong = _told(chaos, found, kafka) + ([] if chaos.put_back else chaos.false_alarms())
            if not found:
                planted = chaos.oracle.plant() if control else []
                wrong += _control(planted, chaos.findings()) if control else []
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
