"""Fifteen faults put into the code on purpose, one at a time, each of which the suite must find.

`make mutations` takes a copy of the checkout, changes one line in it, and runs the tests named for it. It exits with 0
only when each of them turned red. A fault whose line is no longer there is an error: it has to be written again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sandbox.paths import PROJECT


@dataclass(frozen=True)
class Mutation:
    """In `file`, `line` becomes `wrong`; `tests` find it."""

    what: str
    file: str
    line: str
    wrong: str
    tests: str


MUTATIONS = (
    Mutation(
        "an update that changes the key stays one update",
        "migrate/publish/emit.py",
        "self._key(old) == self._key(new):",
        "self._key(old) is not None:",
        "tests/publish/test_emit.py",
    ),
    Mutation(
        "a row's old value is left out when it becomes NULL",
        "migrate/publish/decode/row_json.py",
        "        if old_null:\n",
        "        if old_null or new_null:\n",
        "tests/publish/test_row_json.py",
    ),
    Mutation(
        "batches may be acknowledged in any order",
        "migrate/publish/batches.py",
        "if not self._outstanding or self._outstanding[0].id != number:",
        "if not self._outstanding:",
        "tests/publish/test_batches.py",
    ),
    Mutation(
        "an equal coordinate is no repeat",
        "migrate/merge/folder.py",
        "change.coordinate <= seen:",
        "change.coordinate < seen:",
        "tests/merge/test_planner.py tests/property/test_stream_model.py",
    ),
    Mutation(
        "a place that a row left keeps it",
        "migrate/merge/fold.py",
        "at.put(gone, Intent(change.key, None, change.coordinate))",
        "pass",
        "tests/merge/test_fold.py tests/property/test_stream_model.py",
    ),
    Mutation(
        "an owner of an earlier epoch may write",
        "migrate/target/fence.py",
        "WHERE {_ROW} AND epoch = %s",
        "WHERE {_ROW} AND epoch >= %s",
        "tests/target/test_fence.py",
    ),
    Mutation(
        "a database that came back with less is written on",
        "migrate/target/reached.py",
        "AND epoch = %s AND holder = %s AND next_offset >= %s",
        "AND epoch = %s AND holder = %s AND next_offset <> -2 - %s",
        "tests/merge/test_lost_writes.py",
    ),
    Mutation(
        "an epoch given twice serves both of its holders",
        "migrate/target/reached.py",
        "(int(row[0]), str(row[1])) != claim[1:]",
        "int(row[0]) != claim[1]",
        "tests/merge/test_lost_writes.py",
    ),
    Mutation(
        "a copy closes a table over chunks that a target lost",
        "migrate/copy/table_steps.py",
        "if (found := there.get(number)) is None or found[0] < one.attempt or not found[1]",
        "if number < 0",
        "tests/copy/test_lost_writes.py",
    ),
    Mutation(
        "a look-up locks no row",
        "migrate/target/rows.py",
        "WHERE {where} FOR UPDATE",
        "WHERE {where}",
        "tests/target/test_rows.py tests/target/test_part.py tests/target/test_decided.py",
    ),
    Mutation(
        "an attempt of the copy that was superseded may write",
        "migrate/target/chunk_fence.py",
        "WHERE {_CHUNK} AND attempt = %s AND closed = 0",
        "WHERE {_CHUNK} AND attempt >= %s AND closed = 0",
        "tests/target/test_chunk_fence.py",
    ),
    Mutation(
        "offsets behind a record that is not consumed are committed",
        "migrate/state/record.py",
        "before = () if first_new is None else (table.c.message_offset < first_new,)",
        "before = ()",
        "tests/state/test_record.py",
    ),
    Mutation(
        "a deferred delete comes back before its time",
        "migrate/delay/requeue.py",
        "and waiting.messages[0][1] <= now:",
        "and waiting.messages[0][1] >= 0:",
        "tests/flow/test_clocks.py",
    ),
    Mutation(
        "MOD keeps the sign of a negative value",
        "migrate/sharding/in_server.py",
        'return f"MOD(MOD({{0}}, {count}) + {count}, {count})"',
        'return f"MOD({{0}}, {count})"',
        "tests/sharding/test_in_server.py",
    ),
    Mutation(
        "a row at two places is no difference",
        "migrate/verify/difference.py",
        "if elsewhere else None",
        "if len(elsewhere) > 1 else None",
        "tests/verify/test_difference.py",
    ),
)


def found(mutation: Mutation, copy: Path) -> bool:
    """Whether the tests named for it turn red. Raises ValueError when its line is not there exactly once."""
    file = copy / mutation.file
    text = file.read_text("utf-8")
    if text.count(mutation.line) != 1:
        raise ValueError(f"{mutation.file} has {mutation.line!r} {text.count(mutation.line)} times")
    file.write_text(text.replace(mutation.line, mutation.wrong), "utf-8")
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", *mutation.tests.split()]
        environment = {**os.environ, "FLAVOURS": "mariadb"}
        ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode not in (0, 1):
            raise ValueError(f"{mutation.tests} could not be run: {ended.stdout[-2000:]}")
        return ended.returncode == 1
    finally:
        file.write_text(text, "utf-8")


def main() -> int:
    missed = 0
    with TemporaryDirectory(prefix="mutations-") as directory:
        copy = Path(directory, "checkout")
        listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        for name in listed.splitlines():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, copy / name)
        (copy / ".sandbox").mkdir()
        (copy / ".sandbox" / "cache").symlink_to(PROJECT / ".sandbox" / "cache")
        for mutation in MUTATIONS:
            began = time.monotonic()
            is_red = found(mutation, copy)
            missed += not is_red
            outcome = "red" if is_red else "NOT FOUND"
            sys.stdout.write(f"{outcome:9} {time.monotonic() - began:4.0f} s  {mutation.what} ({mutation.file})\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
