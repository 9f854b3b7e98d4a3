"""The Spark session of this process: started once, shared by copy and verification.

Nothing secret goes into Spark's configuration, on its command line or into its environment; what tasks need travels in
their closure.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import migrate
from jobs.bundle import ZIP, from_archive, zip_to
from jobs.collect import lost
from jobs.frames import map_in_arrow, untouched
from migrate import private
from migrate.model.errors import PreflightError
from migrate.settings import Settings, secrets_of

log = structlog.get_logger("migrate.spark")
_open: SparkSession | None = None
_LONG = 40
_LEAST_BYTES = 1024 * 1024
"""A disk with less is full for Spark."""

_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""It plans and schedules some jobs: what the optimising compiler would spend on that is a third of Spark's start."""
CLASSES = Path(sys.prefix, "share", "migrate", "spark.jsa")
"""Where `jobs.archive` puts Spark's classes; the JVM does without when it is not of its kind."""
_ARCHIVED = f'-XX:SharedArchiveFile="{CLASSES}" -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off'

_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@contextmanager
def spark_session(
    settings: Settings, master: str, meanwhile: Sequence[Callable[[], object]] = ()
) -> Iterator[SparkSession]:
    """The session this process has, or a new one that ends with the block.

    Args: master: Spark's master URL, e.g. "local[*]"; under spark-submit its own wins. meanwhile: done while Spark
    starts, and waited for only once it has. Raises: PreflightError when Spark does not start; what those steps raise.
    """
    beside = _beside(meanwhile)
    with _session(settings, master) as session:
        beside.result()
        yield session


def _beside(steps: Sequence[Callable[[], object]]) -> Future[None]:
    """The outcome of steps that a thread does. An executor's thread would be waited for wherever the process ends."""
    outcome: Future[None] = Future()

    def work() -> None:
        try:
            for step in steps:
                step()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    threading.Thread(target=work, name="beside-spark", daemon=True).start()
    return outcome


@contextmanager
def _session(settings: Settings, master: str) -> Iterator[SparkSession]:
    global _open
    if _open is not None:
        yield _open
        return
    _open = _start(settings, master, _sockets().name)
    try:
        yield _open
    finally:
        session, _open = _open, None
        session.stop()
        shutil.rmtree(_scratch((settings.run_dir / "spark").resolve()), ignore_errors=True)


@cache
def _sockets() -> TemporaryDirectory[str]:
    """A directory that ends with this process: a JVM keeps to the one of its first session."""
    return TemporaryDirectory(prefix="migrate-", dir=_short(), ignore_cleanup_errors=True)


def _short() -> str | None:
    """A place for sockets where that for temporary files has too long a path: 108 bytes are a socket's whole."""
    return None if len(gettempdir()) < _LONG else "/tmp"  # noqa: S108  the directory is its own, and private


def _start(settings: Settings, master: str, sockets: str) -> SparkSession:
    directory = (settings.run_dir / "spark").resolve()
    began = time.monotonic()
    _reach(master)
    try:
        private.directory(private.directory(settings.run_dir) / "spark")
        options = _options(settings, master, directory, sockets)
        with _not_inherited(secrets_of(settings)):
            session = started(f"migrate {settings.name}", options, directory)
        _ship(session, directory)
        if str(session.sparkContext.master).startswith("local"):
            warm(session)
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise _not_started(error, directory) from error
    log.info("spark started", master=session.sparkContext.master, seconds=round(time.monotonic() - began, 1))
    return session


def _not_started(error: Exception, directory: Path) -> PreflightError:
    reason = (lost(error) or str(error)).removeprefix("Spark: ")
    if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error) or _full(directory):
        hint = f"the disk of {directory} is full; `run_dir` says where it is"
    elif isinstance(error, Py4JError):
        hint = f"{directory / 'spark.log'} says more"
    else:
        hint = f"it needs Java 17 or later (JAVA_HOME or `java` in PATH); {directory / 'spark.log'} says more"
    return PreflightError(f"Spark did not start: {reason}", hint=hint)


def _full(directory: Path) -> bool:
    return directory.exists() and shutil.disk_usage(directory).free < _LEAST_BYTES


def _reach(master: str) -> None:
    """Raise PreflightError when no standalone master answers; Spark itself would say so after a minute."""
    if _submitted() or not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except (OSError, ValueError) as error:
            reason = str(error)
        else:
            return
    raise PreflightError(
        f"no Spark master answers at {master}: {reason}", hint="`copy.master` and `verify.master` name it"
    )


def _submitted() -> bool:
    """Whether spark-submit started this process, which has its own settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def warm(session: SparkSession) -> None:
    """Have workers forked, and loaded what every job needs, before a chunk waits for them."""
    tasks = session.sparkContext.defaultParallelism
    map_in_arrow(session.range(0, tasks, 1, tasks), untouched, "id long").collect()


def _ship(session: SparkSession, directory: Path) -> None:
    """Bring the program to executors on other machines."""
    if str(session.sparkContext.master).startswith("local") or from_archive():
        return
    file = _scratch(directory) / ZIP
    file.parent.mkdir(parents=True, exist_ok=True)
    zip_to(file)
    session.sparkContext.addPyFile(str(file))


def started(name: str, options: Mapping[str, str], directory: Path) -> SparkSession:
    """A new session, of which the JVM's own words go to a file in `directory`. Raises as Spark does."""
    builder = SparkSession.builder.appName(name)
    for key, value in options.items():
        builder = builder.config(key, value)
    with _stderr_to(directory / "spark.log"), _interrupts_later():
        return builder.getOrCreate()


@contextmanager
def _not_inherited(secrets: Collection[str]) -> Iterator[None]:
    """The environment without variables whose whole value is a secret: a JVM keeps what it starts with, and its workers
    inherit that."""
    taken = {name: value for name, value in os.environ.items() if value in secrets}
    for name in taken:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(taken)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C only after the block: a JVM whose launch is broken off stays, for good, without its parent. PySpark sets a
    handler of its own near the end of its start, which asks Java in the middle of another question and may wait for
    ever: it is not set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    set_handler = signal.signal
    before = set_handler(signal.SIGINT, lambda number, _: came.append(number))

    def without_sparks(number: int, handler: Any) -> Any:
        """The JVM is still told to ignore it."""
        return before if number == signal.SIGINT and callable(handler) else set_handler(number, handler)

    try:
        signal.signal = without_sparks  # type: ignore[assignment]  # of the same use
        yield
    finally:
        signal.signal = set_handler
        set_handler(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _options(settings: Settings, master: str, directory: Path, sockets: str) -> dict[str, str]:
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.enabled": "false",
        "spark.scheduler.mode": "FIFO",
    }
    if _submitted():
        SparkContext._ensure_initialized()
        given = dict(SparkConf().getAll())
        options = {name: value for name, value in options.items() if name not in given}
    else:
        options |= own_machine(master, directory, sockets, _ARCHIVED if CLASSES.exists() else "")
        if python := settings.spark_conf.get("spark.pyspark.python"):
            os.environ["PYSPARK_PYTHON"] = python
    # A speculative twin, or a task run again, would write under the same attempt (invariant copy-never-overwrites).
    return {**options, **settings.spark_conf, "spark.speculation": "false", "spark.task.maxFailures": "1"}


def own_machine(master: str, directory: Path, sockets: str, java: str) -> dict[str, str]:
    """Spark's settings for a driver that this process starts.

    sockets: a directory for those of local workers, whose path must be short; java: further options of its JVM.
    """
    local = master.startswith("local")
    # of the executors, which may be on other machines
    os.environ["PYSPARK_PYTHON"] = sys.executable if local else os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    scratch = _scratch(directory)
    private.directory(scratch)  # the JVM makes none for its libraries
    log4j = directory / "log4j2.properties"
    private.write(log4j, _LOG4J.encode("utf-8"))
    options = {
        "spark.master": master,
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.extraJavaOptions": (
            f'-Dlog4j2.configurationFile={log4j.as_uri()} -Djava.io.tmpdir="{scratch}" {_JVM} {java}'
        ),
        "spark.log.level": "ERROR",
        # Rows pass by the JVM: code made for them would never be run often enough.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        root = str(Path(migrate.__file__).resolve().parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        options |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
            "spark.python.daemon.module": "jobs.daemon",
            # By TCP each task would wait 40 ms for an acknowledgement that is sent late (Nagle's algorithm).
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": sockets,
        }
    return options


def _scratch(directory: Path) -> Path:
    """This process's directory for Spark's files; what killed processes left is removed."""
    for left in directory.glob("local-*"):
        owner = left.name.removeprefix("local-")
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(left, ignore_errors=True)
    return directory / f"local-{os.getpid()}"


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Point file descriptor 2 at a file while the JVM starts, which keeps it: its own words go there for good."""
    sys.stderr.flush()
    before = os.dup(2)
    file = private.opened(path, os.O_APPEND)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(file)
