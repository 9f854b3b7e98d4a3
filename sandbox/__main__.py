"""Command line of the sandbox: `python -m sandbox install` and `python -m sandbox up`."""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from sandbox import snippet, state
from sandbox.demo_data import create_orders, load_sakila
from sandbox.errors import SandboxError
from sandbox.install.plan import install, install_browser, install_releases
from sandbox.paths import run_dir
from sandbox.releases import RELEASES, release
from sandbox.settings import Flavour
from sandbox.stack import Sandbox


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description="Real servers for tests and the demo.")
    commands = parser.add_subparsers(dest="command", required=True)
    names = [flavour.value for flavour in Flavour]
    put = commands.add_parser("install", help="install what is missing")
    put.add_argument("--flavour", choices=[*names, "all"], default="all", help="default: all")
    more = ", ".join(RELEASES)
    put.add_argument("--servers", default="", help=f"further servers by commas, fetched into the cache: {more}, or all")
    put.add_argument("--browser", action="store_true", help="also what tests of the page need: Chromium, axe-core")
    up = commands.add_parser("up", help="start a source, targets and Kafka; stop them on Ctrl-C")
    up.add_argument("--flavour", choices=names, default="mariadb", help="default: mariadb")
    up.add_argument("--targets", type=int, default=2, metavar="N", help="number of target servers (default: 2)")
    up.add_argument("--no-kafka", action="store_true", help="database servers only")
    up.add_argument("--root", type=Path, help="directory for the data, kept afterwards (default: a throw-away one)")
    up.add_argument("--data", action="store_true", help="load Sakila and 200,000 orders into the source")
    return parser.parse_args(argv)


def _up(options: argparse.Namespace) -> None:
    ended = threading.Event()
    again = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    signal.signal(signal.SIGUSR1, lambda *_: again.set())
    box = Sandbox(options.flavour, options.root, targets=options.targets, kafka=not options.no_kafka)
    began = time.monotonic()
    with box:
        print(f"started in {time.monotonic() - began:.1f} s; data in {box.root}")
        if options.data:
            load_sakila(box.source)
            create_orders(box.source)
        for server in box.servers:
            print(f"  {server.name:8} {server.host}:{server.port}  pid {server.pid}  log {server.log}")
        secrets = box.root / "passwords.sh"
        values = snippet.environment(box)
        state.private_file(secrets, "".join(f"export {name}={value}\n" for name, value in values.items()))
        print(
            f"\npasswords: . {secrets}\nfor the config file:\n\n{snippet.config(box)}\nCtrl-C stops all.",
            flush=True,
        )
        _watch(box, ended, again)
    print("stopped")


def _watch(box: Sandbox, ended: threading.Event, again: threading.Event) -> None:
    """Until it shall end. A server that ends is told once, and the others go on; again: starts those that ended.

    Raises SandboxError when all have ended, or one does not start again.
    """
    gone: set[str] = set()
    while not ended.wait(0.5):
        if again.is_set():
            again.clear()
            for server in box.servers:
                if not server.running:
                    server.start()
                    print(f"{server.name} runs again: pid {server.pid}", flush=True)
        away = [server for server in box.servers if not server.running]
        for server in away:
            if server.name not in gone:
                way = f"the others go on, `kill -USR1 {os.getpid()}` starts it again"
                print(f"{server.name} has ended, see {server.log}; {way}", flush=True)
        gone = {server.name for server in away}
        if len(away) == len(box.servers):
            raise SandboxError(f"all servers have ended; see {away[0].log}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; exit status 0 when done, 1 with one message on standard error when not."""
    options = _arguments(argv)
    try:
        if options.command == "install":
            install(list(Flavour) if options.flavour == "all" else [Flavour(options.flavour)])
            names = RELEASES if options.servers == "all" else filter(None, options.servers.split(","))
            install_releases(one for one in map(release, names) if one)
            if options.browser:
                install_browser()
        else:
            run_dir().mkdir(parents=True, exist_ok=True)
            _up(options)
    except SandboxError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
