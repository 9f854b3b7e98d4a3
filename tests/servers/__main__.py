"""`make test-servers` and `make test-server HOST=…`: every step with each pair of servers, as a table.

Exit status 1 where a step went wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandbox.broker import KafkaBroker
from sandbox.paths import run_dir
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.servers import steps
from tests.servers.named import Named
from tests.servers.pair import PAIRS, Pair, installed, pairs_of, takes_back

STEPS = ("types", "stream, copy, verify, switch", "failover")
Row = tuple[str, str, tuple[str, ...]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.servers")
    parser.add_argument("--servers", default="", help="by commas; without: all that are in the cache")
    parser.add_argument("--host", default="", help="a server of your own as the source: HOST, with --port and --user")
    parser.add_argument("--port", type=int, default=3306)
    parser.add_argument("--user", default="root", help="its password: PASSWORD in the environment")
    parser.add_argument("--markdown", action="store_true", help="the table as docs/servers.md has it")
    return parser.parse_args()


def _done(step: Callable[[], str], what: str, console: Console) -> str:
    began = time.monotonic()
    try:
        told = step()
    except Exception as error:  # whatever it is, it is this cell's
        console.print(f"{what}: {escape(str(error))[:4000]}", style="red")
        return "failed"
    console.print(f"{what}: {escape(told)} ({time.monotonic() - began:.0f} s)")
    return told


def _row(box: Sandbox, kafka: KafkaBroker, root: Path, names: tuple[str, str], console: Console) -> Row:
    def directory() -> Path:
        made = root / f"work-{time.monotonic_ns()}"
        made.mkdir(parents=True)
        return made

    source, target = names
    what = f"{source} to {target}"
    own = isinstance(box.source, Named)
    done = [
        _done(lambda: steps.types(box, kafka, directory()), f"{what}, types", console),
        _done(lambda: steps.flow(box, kafka, directory(), back=takes_back(box)), f"{what}, flow", console),
        "not run"
        if own
        else _done(lambda: steps.failover(box, kafka, directory(), root), f"{what}, failover", console),
    ]
    return source, target, tuple(done)


@contextmanager
def _broker(root: Path) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(root / "kafka")
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def _boxes(options: argparse.Namespace, root: Path) -> Iterator[tuple[tuple[str, str], Sandbox]]:
    if options.host:
        named = Named(options.host, options.port, options.user, os.environ.get("PASSWORD", ""), root / "named")
        for target in Flavour:
            box = Pair(str(named.flavour), str(target), root / f"named-{target}")
            box.source = named
            yield (f"{named.flavour} {named.version}", str(target)), box
        return
    wanted = [one for one in options.servers.split(",") if one not in ("", "all")]
    for pair in pairs_of(wanted) if wanted else [one for one in PAIRS if all(map(installed, one))]:
        yield pair, Pair(*pair, root / "-".join(pair))


def shown(rows: list[Row]) -> list[str]:
    """The lines of the table in docs/servers.md."""
    lines = [f"| source | targets | {' | '.join(STEPS)} |", "|---" * (2 + len(STEPS)) + "|"]
    return lines + [f"| {source} | {target} | {' | '.join(cells)} |" for source, target, cells in rows]


def main() -> int:
    """Work the pairs through; the exit status."""
    options, console, rows = _arguments(), Console(width=None if sys.stdout.isatty() else 160), []
    run_dir().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="servers-", dir=run_dir()) as directory, _broker(Path(directory)) as kafka:
        for names, box in _boxes(options, Path(directory)):
            with box:
                rows.append(_row(box, kafka, Path(directory), names, console))
    if options.markdown:
        console.file.write("\n".join(shown(rows)) + "\n")
    else:
        table = Table("source", "targets", *STEPS)
        for source, target, cells in rows:
            table.add_row(source, target, *(f"[red]{one}[/]" if one == "failed" else one for one in cells))
        console.print(table)
    return int(not rows or any("failed" in cells for *_, cells in rows))


if __name__ == "__main__":
    sys.exit(main())
