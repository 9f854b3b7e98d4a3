"""The protocol's models (`docs/model`) checked by spin: `python -m tests.model_checker [--broken]`.

Without an option every model is searched exhaustively within its bounds, and must hold. With `--broken` each rule is
taken out of a model, one at a time, and the shortest way to lose a row is printed; it is a failure when there is none.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sandbox.paths import PROJECT

DIRECTORY = PROJECT / "docs" / "model"
_MEMORY_MB = 2000
_SECONDS = 240.0
_ALL_SECONDS = 300.0
_SAID = "SAY "
_NAMES = (
    (r"\b(?:the )?row of change 0\b", "no row"),
    (r"\brow 9\b", "the row as it was at first"),
    (r"\brow 0\b", "no row"),
    (r"\brow (?=\d)", "the row of change "),
)
"""What numbers stand for, in trails of the copy and the stream."""


@dataclass(frozen=True)
class Model:
    """`file` within `bounds`, which are definitions for the preprocessor."""

    what: str
    file: str
    bounds: str = ""


@dataclass(frozen=True)
class Broken:
    """An invariant, by its name in docs/invariants.md, what takes it out of a model, and what happens then."""

    rule: str
    what: str
    without: str
    file: str
    bounds: str = ""
    shortest: bool = True  # False where breadth first does not fit into memory


@dataclass(frozen=True)
class Checked:
    """What a search came to. trail: what happened, a line a step; empty where the model holds."""

    holds: bool
    states: int
    trail: Sequence[str] = ()


class CheckError(Exception):
    """The search could not be made, or did not end; one line."""


_LOSS = "ABORTS=0 LOSSES=1"
MODELS = (
    Model("a zombie publisher, a hand-over", "stream.pml"),
    Model("a refresh, a hand-over", "stream.pml", "ONE_PUBLISHER CHANGES=3 REFRESHES=1"),
    Model("a row that moves between two databases", "stream.pml", "ONE_PUBLISHER CHANGES=3 DATABASES=2"),
    Model("a target that comes back with less", "stream.pml", "ONE_PUBLISHER TARGET_LOST CHANGES=3"),
    Model("one of two targets that does", "stream.pml", "ONE_PUBLISHER TARGET_LOST DATABASES=2"),
    Model("a state that comes back with less", "stream.pml", "ONE_PUBLISHER STATE_LOST"),
    Model("both come back with less", "stream.pml", "ONE_PUBLISHER STATE_LOST TARGET_LOST CHANGES=1"),
    Model("a copy, and a second run of it", "copy.pml", "CHANGES=3"),
    Model("the same, with a refresh", "copy.pml", "REFRESHES=1"),
    Model("a table that is copied once more", "copy.pml", "COPIED_FIRST CHANGES=3 REFRESHES=1"),
    Model("a copy whose target comes back with less", "copy.pml", "ONE_COPY TARGET_LOST"),
    Model("the same of a table copied once more", "copy.pml", "COPIED_FIRST TARGET_LOST"),
    Model("a copy whose state comes back with less", "copy.pml", "STATE_LOST ATTEMPTS=2"),
    Model("unique values that change rows", "unique.pml", "CHANGES=4"),
    Model("a cutover, a rollback, late refreshes", "switch.pml", "WRITES=3 REFRESHES=2"),
    Model("the same, with a write by hand", "switch.pml", "WRITES=3 SWITCHES=3 BY_HAND=1"),
    Model("the same, and the standby side comes back with less", "switch.pml", f"WRITES=2 REFRESHES=1 {_LOSS}"),
    Model("a verification beside changes", "certificate.pml", "CHANGES=3"),
)

_STREAM = "ONE_PUBLISHER"
BROKEN = (
    Broken(
        "position-after-delivery", "the position moves before Kafka confirmed", "POSITION_AFTER_DELIVERY", "stream.pml"
    ),
    Broken("repeats-by-coordinate", "a repeat is applied", "REPEATS_DROPPED", "stream.pml"),
    Broken("consumed-is-a-prefix", "consumed when it is read", "CONSUMED_PREFIX", "stream.pml", _STREAM),
    Broken("fenced-writer", "a write names no epoch", "FENCE_EPOCH", "stream.pml", _STREAM),
    Broken("fenced-writer", "the fence has no coordinate", "FENCE_COORDINATE", "stream.pml", _STREAM),
    Broken(
        "refresh-settles-doubt",
        "whoever asks reads and writes the row",
        "REFRESH_BY_OWNER",
        "stream.pml",
        "ONE_PUBLISHER REFRESHES=1",
    ),
    Broken("fence-compares", "a write names no offset", "FENCE_OFFSET", "stream.pml", "ONE_PUBLISHER TARGET_LOST"),
    Broken(
        "fence-compares",
        "the offset that a database is found with is not kept",
        "FOUND_NOTED",
        "stream.pml",
        "ONE_PUBLISHER TARGET_LOST",
    ),
    Broken(
        "fence-compares",
        "a consumer's mark does not see that the state was put back",
        "MARK_COMPARED",
        "stream.pml",
        "ONE_PUBLISHER STATE_LOST TARGET_LOST",
        shortest=False,
    ),
    Broken("fence-compares", "a write names no holder", "FENCE_HOLDER", "stream.pml", "ONE_PUBLISHER STATE_LOST"),
    Broken("copy-never-overwrites", "a chunk has no attempt", "ATTEMPT_FENCE", "copy.pml"),
    Broken("tombstone-under-open-chunk", "no ledger", "LEDGER", "copy.pml"),
    Broken("tombstone-under-open-chunk", "the copy does not read the ledger", "TAKE_OUT", "copy.pml"),
    Broken("tombstone-under-open-chunk", "no delete comes back", "DEFERRED_DELETE", "copy.pml"),
    Broken(
        "tombstone-under-open-chunk",
        "neither noted before the look-up nor back later",
        "LEDGER_BEFORE_LOOK_UP WITHOUT_DEFERRED_DELETE",
        "copy.pml",
    ),
    Broken(
        "capture-before-copy",
        "a table is opened again and read at once",
        "WAIT_UNTIL_READABLE",
        "copy.pml",
        "COPIED_FIRST",
    ),
    Broken(
        "capture-before-copy",
        "a table that the target has closed is read at once",
        "WAIT_WHERE_CLOSED",
        "copy.pml",
        "STATE_LOST ATTEMPTS=2 CHANGES=1",
    ),
    Broken("fence-compares", "done chunks are not compared", "CHUNK_COMPARE", "copy.pml", "ONE_COPY TARGET_LOST"),
    Broken(
        "fence-compares",
        "an attempt does not see that its table is closed",
        "OPEN_AT_ATTEMPT",
        "copy.pml",
        "COPIED_FIRST TARGET_LOST",
    ),
    Broken("unique-values", "a writer waits for the row that holds its value", "EVICTION", "unique.pml"),
    Broken("unique-values", "the copy takes a value from another row", "CONFLICT_LEFT", "unique.pml"),
    Broken(
        "per-key-order",
        "two partitions, and no refresh of what made way",
        "ONE_PARTITION WITHOUT_EVICTED_READ_AGAIN",
        "unique.pml",
    ),
    Broken("standby-only", "a stream asks for no role", "ROLE", "switch.pml"),
    Broken("standby-only", "the roles change without a time of frozen", "FROZEN", "switch.pml"),
    Broken(
        "standby-only", "the log does not say who was standby", "ROLE_IN_LOG", "switch.pml", "BY_HAND=1 REFRESHES=0"
    ),
    Broken(
        "standby-only",
        "a switch does not wait for the other stream",
        "OTHER_STREAM_CHECKED WITHOUT_OTHER_SIDE_READ",
        "switch.pml",
    ),
    Broken(
        "standby-only",
        "a switch does not wait for writes by hand",
        "OTHER_SIDE_READ",
        "switch.pml",
        "BY_HAND=1 REFRESHES=0",
    ),
    Broken("drain-before-switch", "nothing is drained or compared", "DRAIN", "switch.pml", "REFRESHES=0"),
    Broken("own-writes-marked", "a stream reads what the other one wrote", "OWN_MARK", "switch.pml", "REFRESHES=0"),
    Broken(
        "standby-only",
        "a session that was opened anew asks the database alone who may write",
        "STATE_ASKED",
        "switch.pml",
        f"WRITES=1 SWITCHES=1 REFRESHES=1 {_LOSS}",
    ),
    Broken(
        "fence-compares",
        "a switch does not ask the databases what they have",
        "DATABASES_ASKED",
        "switch.pml",
        f"WRITES=2 REFRESHES=1 {_LOSS}",
        shortest=False,
    ),
    Broken("certificate-binds", "a clean end arms the cutover", "BINDING", "certificate.pml"),
    Broken(
        "certificate-binds",
        "one from before the other stream read counts",
        "BEGINNING",
        "certificate.pml",
        "CHANGES=0",
    ),
)


def check(file: str, bounds: str, without: str = "", *, shortest: bool = True, seconds: float = _SECONDS) -> Checked:
    """Search a model; without a rule breadth first, where the shortest trail is asked for. Raises CheckError."""
    words = [*bounds.split(), *(f"WITHOUT_{word.removeprefix('WITHOUT_')}" for word in without.split())]
    defines = [f"-D{word}" for word in words]
    with TemporaryDirectory(prefix="model-") as name:
        there = Path(name)
        shutil.copy2(DIRECTORY / file, there / file)
        _run(["spin", "-a", *defines, file], there, seconds)
        breadth = ["-DBFS"] if without and shortest else []
        options = ["-O2", "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={_MEMORY_MB}", *breadth]
        _run(["gcc", *options, "-o", "pan", "pan.c"], there, seconds)
        told = _run(["./pan", "-m1000000", "-n"], there, seconds)
        found = re.search(r"errors: (\d+)", told)
        states = re.search(r"(\d+) states, stored", told)
        if found is None or states is None:
            raise CheckError(f"{file} {bounds}: the search ended without a result: {told.strip()[-200:]}")
        if found[1] == "0":
            if "Search not completed" in told or "too small" in told:
                raise CheckError(f"{file} {bounds}: not searched to its end, within {_MEMORY_MB} MB")
            return Checked(True, int(states[1]))
        replayed = _run(["spin", "-t", "-T", *defines, file], there, seconds)
        trail = [_named(file, line.split(_SAID, 1)[1]) for line in replayed.splitlines() if _SAID in line]
        if "pan:1: invalid end state" in told:
            trail.append("somebody waits for ever")
        return Checked(False, int(states[1]), trail)


def _named(file: str, line: str) -> str:
    for number, name in _NAMES if file in {"copy.pml", "stream.pml"} else ():
        line = re.sub(number, name, line)
    return line


def _run(command: Sequence[str], there: Path, seconds: float) -> str:
    """What it prints. Raises CheckError where the program is missing, does not end in time, or refuses its input."""
    try:
        ended = subprocess.run(command, cwd=there, capture_output=True, text=True, timeout=seconds, check=False)
    except FileNotFoundError:
        raise CheckError(f"{command[0]} is not installed: `make servers` installs it") from None
    except subprocess.TimeoutExpired:
        raise CheckError(f"{' '.join(command)}: not done within {seconds:.0f} s") from None
    if ended.returncode and command[0] in {"gcc", "spin"} and "-t" not in command:
        raise CheckError(f"{' '.join(command)}: {(ended.stdout + ended.stderr).strip()[-500:]}")
    return ended.stdout


def check_all() -> bool:
    """Every model, a line each; whether all hold, and within the time that CI gives them."""
    good, started = True, time.monotonic()
    for model in MODELS:
        began = time.monotonic()
        found = check(model.file, model.bounds)
        outcome = "holds" if found.holds else "FAILS"
        _say(f"{outcome}  {found.states:10,} states {time.monotonic() - began:5.1f} s  {model.file:15} {model.what}")
        _tell(found.trail)
        good = good and found.holds
    if (spent := time.monotonic() - started) > _ALL_SECONDS:
        _say(f"FAILS  {spent:.0f} s for all, above {_ALL_SECONDS:.0f} s: make the bounds of the largest smaller")
        return False
    return good


def break_all() -> bool:
    """Every rule taken out, and what happens then; whether each was missed."""
    good = True
    for broken in BROKEN:
        found = check(broken.file, broken.bounds, broken.without, shortest=broken.shortest)
        outcome = "NOT MISSED" if found.holds else "without"
        _say(f"{outcome} ({broken.rule}): {broken.what} ({broken.file}, {found.states:,} states)")
        _tell(found.trail)
        good = good and not found.holds
    _say(f"{len(BROKEN)} rules taken out, one at a time")
    return good


def _tell(trail: Sequence[str]) -> None:
    for number, line in enumerate(trail, 1):
        _say(f"  {number:3}. {line}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    try:
        return 0 if (break_all() if "--broken" in arguments else check_all()) else 1
    except CheckError as error:
        sys.stderr.write(f"model: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
