"""`migrate` commands in processes that have imported everything: importing takes a second of processor time, more than
most commands do. Commands that need Spark run one after the other in a process that keeps its session: a start of one
takes eight seconds of processor time. Tests of the start itself, of signals and of kills start processes of their own.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from migrate.cli.main import PANELS
from migrate.cli.status import as_document
from migrate.model.errors import MigrateError
from migrate.processes.supervisor import process_names
from migrate.settings import Settings, State, load_with_text
from migrate.state import database
from migrate.status import ended_migration, snapshot_reading
from migrate.status.facts import standing
from sandbox import process
from sandbox.demo import migration
from sandbox.errors import SandboxError
from sandbox.paths import PROJECT
from sandbox.process import Environment
from sandbox.stack import Sandbox


def run(line: Sequence[str], environment: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """A command line, without the program's name, to its end. Raises subprocess.TimeoutExpired."""
    with TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        if _SPARKS.intersection(line) and not _SPARKLESS.intersection(line):
            with _keeping:
                code = _keeper().run(list(line), dict(environment), str(out), str(err), seconds)
            if code is None:
                raise subprocess.TimeoutExpired(list(line), seconds, _text(out), _text(err))
            return subprocess.CompletedProcess(list(line), code, _text(out), _text(err))
        command = _context.Process(target=_command, args=(list(line), dict(environment), str(out), str(err)))
        command.start()
        command.join(seconds)
        if command.exitcode is None:
            command.kill()
            command.join()
            raise subprocess.TimeoutExpired(list(line), seconds, _text(out), _text(err))
        return subprocess.CompletedProcess(list(line), command.exitcode, _text(out), _text(err))


class Child(process.Child):
    """A `migrate` process that is forked, also one that the launcher stops somewhere; any other program, or one with
    libraries of its own, is started as ever.
    """

    def start(self, argv: Sequence[str], environment: Environment = None) -> None:
        stop, line = _split(argv)
        if self.running or line is None or "LD_PRELOAD" in (environment or {}):
            super().start(argv, environment)
            return
        self.log.touch()  # somebody may read it at once
        variables = dict(os.environ if environment is None else environment)
        self._began(_Forked(line, variables, str(self.log), self._cwd, stop))


Stop = tuple[str, str, int]
"""When, where and at which call the launcher stops a process."""


def _split(argv: Sequence[str]) -> tuple[Stop | None, list[str] | None]:
    """Where a process is stopped, if anywhere, and the arguments of `migrate`; None for another program."""
    if list(argv[:3]) == _MIGRATE:
        return None, list(argv[3:])
    if list(argv[:3]) == _LAUNCHER:
        return (argv[3], argv[4], int(argv[5])), list(argv[6:])
    return None, None


_made: weakref.WeakSet[Migration] = weakref.WeakSet()


def migrations() -> list[Migration]:
    """Those that a test or a fixture still has."""
    return list(_made)


class Migration(migration.Migration):
    """As the sandbox has it, with commands that are forked."""

    def __init__(self, box: Sandbox, directory: Path, config: str, name: str = "migrate.yaml") -> None:
        super().__init__(box, directory, config, name)
        self._processes: list[Child] = []
        self._states: dict[State, sa.Engine] = {}
        _made.add(self)

    @staticmethod
    def child(name: str, log: Path) -> Child:
        return Child(name, log, Path.cwd())

    def begin(self) -> None:
        """The processes of `migrate run` without their supervisor, which starts each by itself; what ends stays down.

        Returns once the publishers have stored where they start.
        """
        names = process_names(load_with_text(self.config, self.environment)[0])
        names.pop("web", None)  # who asks it starts it
        self._processes = self._begin(names, self.directory / "logs")

        def published() -> bool:
            for child in self._processes:
                if child.name.startswith("migrate publish") and not child.running:
                    raise SandboxError(f"{child.name} has ended: {child.log_tail()}")
            return all(source["published"] for source in self.ask("status")["sources"])

        self.wait(published, 300.0, "the publisher to start")

    def _begin(self, names: Mapping[str, Sequence[str]], logs: Path, *options: str) -> list[Child]:
        logs.mkdir(parents=True, exist_ok=True)
        begun = []
        for name, arguments in names.items():
            child = self.child(f"migrate {name}", logs / f"{name}.log")
            child.start(self.command(*options, *arguments), self.environment)
            begun.append(child)
        return begun

    def stop(self) -> None:
        self.stop_reverse()
        _stop(self._processes)
        super().stop()

    def logs(self, since: float, lines: int) -> Iterator[tuple[Path, str]]:
        """The ends of the logs that its processes have written to since then."""
        for log in sorted({*self.directory.glob("*.log"), *self.directory.glob("**/logs/*.log")}):
            if log.stat().st_mtime >= since:
                yield log, "".join(_text(log).splitlines(keepends=True)[-lines:])

    def ask(self, *arguments: str, timeout: float = 900.0, accept: tuple[int, ...] = (0,)) -> Any:
        """A plain `status` is asked here: waits put the question again and again, and a process of its own takes it
        three times as long.
        """
        if arguments != ("status",):
            return super().ask(*arguments, timeout=timeout, accept=accept)
        settings, _ = load_with_text(self.config, self.environment)
        if settings.state not in self._states:
            self._states[settings.state] = database.engine(settings.state)
        state = self._states[settings.state]
        try:
            found = ended_migration.read(settings, state) or _document(settings, state)
        except (MigrateError, DBAPIError) as error:
            raise SandboxError(f"migrate status was refused: {error}") from error
        finally:
            state.dispose()  # what it has compiled stays
        return json.loads(json.dumps(found, default=str))

    def run(self, *arguments: str, timeout: float = 900.0) -> subprocess.CompletedProcess[str]:
        done = run(["--config", str(self.config), *arguments], self.environment, timeout)
        sys.stderr.write(done.stderr)
        return done


class Unsupervised(Migration):
    """Both streams without their supervisors, as `begin`: for a whole course that is not about them."""

    _backward: Sequence[Child] = ()

    def start(self) -> None:
        self.begin()

    def start_reverse(self) -> None:
        settings, _ = load_with_text(self.config, self.environment)
        sources = settings.model_copy(update={"sources": settings.targets})
        self._backward = self._begin(process_names(sources, reverse=True), self.directory / "reverse/logs", "--reverse")

    def check_reverse(self) -> None:
        for child in self._backward:
            if not child.running:
                raise SandboxError(f"{child.name} of the reverse stream has ended: {child.log_tail()}")

    def stop_reverse(self) -> None:
        _stop(self._backward)


def _stop(children: Sequence[Child]) -> None:
    with ThreadPoolExecutor() as together:  # each gets one signal: a second one ends it without its last words
        list(together.map(lambda child: child.stop(60.0), children))


def _document(settings: Settings, state: sa.Engine) -> dict[str, Any]:
    now = snapshot_reading.read(settings, state, whoever_answers=True)
    return as_document(now, standing(settings, state, now))


class _Keeper:
    """A process that runs commands one after the other in one Spark session, begun with the first."""

    def __init__(self) -> None:
        self._ours, theirs = _context.Pipe()
        self._process = _context.Process(target=_keep_session, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def usable(self) -> bool:
        return self._process.is_alive()

    def run(self, line: list[str], environment: dict[str, str], out: str, err: str, seconds: float) -> int | None:
        """A command's exit code; None when it took longer, and the process is no more."""
        try:
            self._ours.send((line, environment, out, err))
            if self._ours.poll(seconds):
                return int(self._ours.recv())
        except (EOFError, OSError):  # it was ended by its command
            self._process.join(10)
            return self._process.exitcode
        self._process.kill()
        self._process.join()
        return None


_kept: list[_Keeper] = []
_keeping = threading.Lock()
_SPARKS = frozenset(("copy", "verify"))
_SPARKLESS = frozenset(("--show", "--mode", "--help"))


def _keeper() -> _Keeper:
    if not _kept or not _kept[0].usable:
        _kept[:] = [_Keeper()]
    return _kept[0]


def _keep_session(commands: Connection) -> None:
    """Run what comes until the tests end. Each command has its own output, environment and working directory."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    from jobs.session import spark_session
    from migrate.cli.main import main
    from tests.helpers import make_settings

    with TemporaryDirectory(prefix="kept-") as directory:
        with spark_session(make_settings(run_dir=directory), "local[2]"):
            while True:
                line, environment, out, err = commands.recv()
                code: str | int | None = 0
                with _as_command(environment, out, err):
                    try:
                        main(line)
                    except SystemExit as ended:
                        code = ended.code
                commands.send(code if isinstance(code, int) else int(code is not None))


@contextmanager
def _as_command(environment: Mapping[str, str], out: str, err: str) -> Iterator[None]:
    before, paths = dict(os.environ), list(sys.path)
    kept = [os.dup(number) for number in (1, 2)]
    os.environ.clear()
    os.environ.update(environment)
    _import_from(environment)
    _spark_environment()["PYTHONPATH"] = environment.get("PYTHONPATH", "")
    os.chdir(PROJECT)
    _redirect(out, err)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.environ.clear()
        os.environ.update(before)
        sys.path[:] = paths


def _import_from(environment: Mapping[str, str]) -> None:
    """What a process that is started with this PYTHONPATH finds."""
    for directory in reversed(environment.get("PYTHONPATH", "").split(os.pathsep)):
        if directory and directory not in sys.path:
            sys.path.insert(0, directory)


def _spark_environment() -> dict[str, str]:
    """Of Spark's workers in the session that is kept."""
    from pyspark import SparkContext

    found: dict[str, str] = SparkContext.getOrCreate().environment
    return found


class _Forked:
    """As much of `subprocess.Popen` as a child needs."""

    def __init__(
        self, line: list[str], environment: dict[str, str], log: str, cwd: Path, stop: Stop | None = None
    ) -> None:
        self._process: ForkServerProcess = _context.Process(
            target=_command, args=(line, environment, log, log, str(cwd), stop), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("migrate", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, which the server that forks has yet to say
                os.kill(self.pid, number)


_MIGRATE = [sys.executable, "-m", "migrate"]
_LAUNCHER = [sys.executable, "-m", "tests.flow.launcher"]
_PR_SET_PDEATHSIG = 1  # prctl(2): a signal when the parent ends, which ends with the tests
_libc = ctypes.CDLL(None, use_errno=True)
_context = multiprocessing.get_context("forkserver")
_modules = {one for commands in PANELS.values() for one in commands.values()}
_context.set_forkserver_preload([f"migrate.cli.{one}" for one in sorted(_modules)])


def _text(file: Path) -> str:
    return file.read_text("utf-8", "replace") if file.exists() else ""


def _command(
    line: list[str],
    environment: dict[str, str],
    out: str,
    err: str,
    cwd: str = str(PROJECT),
    stop: Stop | None = None,
) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    _import_from(environment)
    os.chdir(cwd)
    _redirect(out, err)
    from migrate.cli.main import main
    from migrate.commands import cutover_run

    if {"cutover", "rollback"}.intersection(line):
        setattr(cutover_run, "start_guardian", _Guardian())  # noqa: B010 (its type is that of a process)
    if stop is not None:
        from tests.flow.launcher import stop_at

        stop_at(*stop)
    main(line)


class _Guardian:
    """As much of `subprocess.Popen` as a cutover needs of its guardian, whose start would cost a second.

    It is forked before the command has threads and connections, and waits until the command asks for it.
    """

    def __init__(self) -> None:
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(ours_in)
            os.close(ours_out)
            _guard(theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        self.stdin, self.stdout = os.fdopen(ours_in, "w"), os.fdopen(ours_out)

    def __call__(self, config: Path, without: Collection[str]) -> _Guardian:
        self.stdin.write(json.dumps([str(config), *without]) + "\n")
        self.stdin.flush()
        return self

    def communicate(self) -> None:
        with suppress(BrokenPipeError):  # it was killed
            self.stdin.close()
        self.stdout.read()
        os.waitpid(self._pid, 0)


def _guard(given: int, taken: int) -> NoReturn:
    """The guardian in its fork, to its end."""
    code = 1
    try:
        os.setsid()
        os.dup2(given, 0)
        os.dup2(taken, 1)
        os.close(given)
        os.close(taken)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        line = b""
        while not line.endswith(b"\n"):  # not a byte more: the guardian reads the descriptor itself
            if not (byte := os.read(0, 1)):
                os._exit(0)
            line += byte
        from migrate.commands import cutover_guardian

        code = cutover_guardian.main(*json.loads(line))
        sys.stdout.flush()
    finally:
        os._exit(code)  # the frames below are the command's


def _redirect(out: str, err: str) -> None:
    """Descriptors 1 and 2 to the ends of these files."""
    for number, path in ((1, out), (2, err)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
