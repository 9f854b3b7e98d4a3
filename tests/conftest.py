"""Real servers for the tests, started once a session and only when a test asks for them.

`mariadb_box`, `mysql_box`: a source and two targets. `box`: both in turn, restricted by FLAVOURS=mariadb (or
mysql) in the environment; `flavour` is the name. `crossed`: a source of each and targets of the other. Whole flows run
on one flavour each, unless ALL=1. `kafka`: a broker.
Tests share them, so each uses databases and topics of its own.
"""

import os
import signal
import time
import zlib
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from sandbox import unsynced
from sandbox.broker import KafkaBroker
from sandbox.paths import run_dir
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from sandbox.workdir import owned
from tests import forked

_ON_BOTH = frozenset(
    f"test_{name}.py"
    for name in (
        "canary",
        "grants",
        "open_transaction",
        "turned_globals",
    )
)
_ON_ONE = frozenset(
    f"test_{name}.py"
    for name in (
        # whole flows outside of tests/flow
        "cluster",
        "failover",
        "failover_schema",
        "lossy",
        "standby",
        "standby_others",
        "verify_bound",
        "verify_unlike",
        "verify_resumed",
        # what both servers answer alike, and costs ten seconds and more
        "again",
        "bounded",
        "broker",
        "commands",
        "counters",
        "each_by_itself",
        "flush",
        "full_copy",
        "ghost",
        "large_config",
        "lease",
        "logfiles",
        "lost_writes",
        "managed",
        "many_rows",
        "many_tables",
        "preflight_services",
        "preflight_target",
        "recopy",
        "refusals",
        "reverse_places",
        "run",
        "throttle",
        "verify",
        "writer",
    )
)
"""Tests in these files run on one flavour each; half of them on either."""
_MORE = (
    ("test_groups.py", "joins_a_group"),
    ("test_parts.py", "widened"),
    ("test_tables_come_and_go.py", "MINIMAL"),
    ("test_failover_schema.py", "added"),
    ("test_broker_down.py", "replicas_too_few"),
    ("test_standby_others.py", "requeue"),
    ("test_unique_key.py", "named"),
    ("test_clocks.py", "publisher-behind"),
    ("test_application.py", "-application]"),  # as the demo's does
)
"""Long variants, by file and a part of the name, that run with ALL=1 only."""
_FIRST = tuple(
    f"test_{name}.py"
    for name in (
        "demo",
        "reshard",
        "cutover_killed",
        "pages",
        "chaos",
        "cutover_sources",
        "application",
        "open_transaction",
        "ddl_either_order",
        "stages",
        "cutover",
        "foreign",
        "cutover_refused",
        "cutover_hook",
        "cutover_compared",
        "consumer_killed",
        "failover",
        "cluster",
        "check",
        "live",
        "verify_resumed",
        "logfiles",
        "stream",
        "cutover_grants",
        "cutover_gone",
        "matrix",
        "publisher_killed",
        "standby",
        "schema_change",
        "backlog",
        "large_row",
        "agree",
        "clocks",
        "disk_full",
        "one_topic_gone",
        "odd_names",
    )
)
"""Files that begin first, the longest: else one process would end long after the others."""
_BY_FILE = ("test_demo.py",)
"""Files of which all tests run on the same flavour, as they share a migration."""
# Its optimising compiler would take more time than it saves in so short a life.
os.environ.setdefault("SANDBOX_KAFKA_JVM", "-XX:TieredStopAtLevel=1")
os.environ.setdefault(unsynced.WANTED, "1")
settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("fuzz", deadline=None, print_blob=True)
settings.load_profile("fuzz" if os.environ.get("FUZZ") else "suite")
FLAVOURS = [Flavour(name) for name in os.environ.get("FLAVOURS", "mariadb,mysql").split(",")]


def pytest_configure() -> None:
    # A run in the background of a shell ignores Ctrl-C, and so would the processes that are to be ended by it here.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--begin-until",
        type=int,
        metavar="TIME",
        help="begin no test after this second of the Unix epoch; each that is left out is named at the end",
    )


@pytest.hookimpl(tryfirst=True)  # before a server is started for it
def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.getoption("--begin-until")
    if until is not None and time.time() > until:
        pytest.skip(f"not begun, the time is used up: {item.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure, the ends of the logs of the processes that ran meanwhile: their directory is gone by then."""
    report = yield
    if report.failed:
        with suppress(OSError):  # they still run, and may turn their logs over
            ends = {log: end for one in forked.migrations() for log, end in one.logs(call.start, lines=12)}
            report.sections += [(f"end of {log}", end) for log, end in ends.items()]
    return report


@pytest.fixture(scope="session")
def run_root() -> Iterator[Path]:
    """Directory of this test run's servers, removed at the end."""
    with owned(run_dir() / f"test-{os.getpid()}", keep=False) as directory:
        yield directory


def _box(flavour: Flavour, run_root: Path) -> Iterator[Sandbox]:
    with Sandbox(flavour, run_root / flavour, targets=2, kafka=False, keep=False) as sandbox:
        yield sandbox


@pytest.hookimpl(trylast=True)  # pytest sorts by flavour before
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whole flows, and what costs much and is alike on both servers, run on one flavour each, half of them on either,
    and the longest not in all variants; `ALL=1` runs everything.
    """
    items.sort(key=lambda item: _FIRST.index(item.path.name) if item.path.name in _FIRST else len(_FIRST))
    if os.environ.get("ALL") or len(FLAVOURS) < 2:
        return
    left = {item for item in items if _is_the_others(item) or _is_more(item)}
    config.hook.pytest_deselected(items=[*left])
    items[:] = [item for item in items if item not in left]


def _is_the_others(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    whole = (item.path.parent.name == "flow" and item.path.name not in _ON_BOTH) or item.path.name in _ON_ONE
    if not whole or parameters is None or "flavour" not in parameters.params:
        return False
    mine = str(parameters.params["flavour"])
    name = item.path.name if item.path.name in _BY_FILE else f"{item.path.name}::{item.name}".replace(mine, "")
    return mine != str(FLAVOURS[zlib.crc32(name.encode()) % 2])


def _is_more(item: pytest.Item) -> bool:
    return any(item.path.name == file and part in item.name for file, part in _MORE)


@pytest.fixture(scope="session")
def mariadb_box(run_root: Path) -> Iterator[Sandbox]:
    """MariaDB: source and two targets."""
    yield from _box(Flavour.MARIADB, run_root)


@pytest.fixture(scope="session")
def mysql_box(run_root: Path) -> Iterator[Sandbox]:
    """MySQL: source and two targets."""
    yield from _box(Flavour.MYSQL, run_root)


@pytest.fixture(scope="session", params=FLAVOURS, ids=str)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """Each flavour in turn."""
    return Flavour(request.param)


@pytest.fixture(scope="session")
def box(request: pytest.FixtureRequest, flavour: Flavour) -> Sandbox:
    """A source and two targets of each flavour in turn."""
    found: Sandbox = request.getfixturevalue(f"{flavour}_box")
    return found


class Crossed(Sandbox):
    """The source of one sandbox and the targets of another, which both go on running."""

    def __init__(self, of_source: Sandbox, of_targets: Sandbox) -> None:
        self.flavour, self.root = of_source.flavour, of_source.root
        self.source, self.targets, self._kafka = of_source.source, of_targets.targets, None


@pytest.fixture(scope="session", params=FLAVOURS, ids=lambda flavour: f"from_{flavour}")
def crossed(request: pytest.FixtureRequest) -> Sandbox:
    """A source of each flavour in turn, and two targets of the other."""
    if len(FLAVOURS) < 2:
        pytest.skip("needs both flavours")
    other = next(one for one in FLAVOURS if one != request.param)
    return Crossed(request.getfixturevalue(f"{request.param}_box"), request.getfixturevalue(f"{other}_box"))


@pytest.fixture(scope="session")
def kafka(run_root: Path) -> Iterator[KafkaBroker]:
    """A Kafka broker."""
    broker = KafkaBroker(run_root / "kafka")
    broker.start()
    yield broker
    broker.kill()
