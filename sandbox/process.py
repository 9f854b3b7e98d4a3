"""One server as a child process that cannot outlive the process that started it."""

import atexit
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from sandbox.errors import SandboxError

# The kernel sends the child SIGKILL when its parent dies (prctl(2), PR_SET_PDEATHSIG). The shell then makes
# sure that the parent had not died before that was asked for.
_GUARD = [
    "setpriv", "--pdeathsig", "KILL", "--",
    "sh", "-c", 'test "$PPID" = "$0" || exit 99; exec "$@"',
]  # fmt: skip


Environment = Mapping[str, str] | None


class _Spawner(threading.Thread):
    """Starts all children: PR_SET_PDEATHSIG means the thread that starts, so that one must live on."""

    def __init__(self) -> None:
        super().__init__(name="sandbox-spawner", daemon=True)
        self.pid = os.getpid()
        self._jobs: queue.SimpleQueue[tuple[Future[subprocess.Popen[bytes]], list[str], Path, Path, Environment]]
        self._jobs = queue.SimpleQueue()

    def spawn(self, argv: Sequence[str], log: Path, cwd: Path, environment: Environment) -> "subprocess.Popen[bytes]":
        answer: Future[subprocess.Popen[bytes]] = Future()
        self._jobs.put((answer, [*_GUARD, str(self.pid), *argv], log, cwd, environment))
        return answer.result()

    def run(self) -> None:
        while True:
            answer, argv, log, cwd, environment = self._jobs.get()
            try:
                with log.open("ab") as out:
                    answer.set_result(
                        subprocess.Popen(
                            argv,
                            stdin=subprocess.DEVNULL,
                            stdout=out,
                            stderr=subprocess.STDOUT,
                            cwd=cwd,
                            env=environment,
                            start_new_session=True,  # Ctrl-C is ours to handle, in our order
                        )
                    )
            except BaseException as error:
                answer.set_exception(error)


_lock = threading.Lock()
_spawner: _Spawner | None = None
_live: set["Child"] = set()


def _the_spawner() -> _Spawner:
    global _spawner
    with _lock:
        if _spawner is None or _spawner.pid != os.getpid():  # threads do not survive a fork
            _spawner = _Spawner()
            _spawner.start()
        return _spawner


class Running(Protocol):
    """What started: as much of `subprocess.Popen` as a child needs."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


class Child:
    """A child process with its output in a log file. Not shared between processes."""

    def __init__(self, name: str, log: Path, cwd: Path) -> None:
        self.name = name
        self.log = log
        self._cwd = cwd
        self._owner = 0
        self._popen: Running | None = None

    def start(self, argv: Sequence[str], environment: Environment = None) -> None:
        """Start the program, with our environment or the one given.

        Raises SandboxError when it runs already or cannot be executed.
        """
        if self.running:
            raise SandboxError(f"{self.name} runs already (pid {self.pid})")
        try:
            self._began(_the_spawner().spawn(argv, self.log, self._cwd, environment))
        except OSError as error:
            raise SandboxError(f"{self.name} cannot be started: {error}") from error

    def _began(self, popen: Running) -> None:
        self._popen = popen
        self._owner = os.getpid()
        _live.add(self)

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def pid(self) -> int:
        """Process id. Raises SandboxError when it was never started."""
        if self._popen is None:
            raise SandboxError(f"{self.name} was not started")
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """Exit status (negative: the signal that ended it), None while it runs or was never started."""
        return None if self._popen is None else self._popen.poll()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether it ended in time."""
        if self._popen is None:
            return True
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it runs."""
        if self._popen is not None and self._owner == os.getpid():
            self._popen.send_signal(number)

    def stop(self, seconds: float = 30.0) -> None:
        """SIGTERM, and SIGKILL when it has not ended after `seconds`. Does nothing when it does not run."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if not self.wait(seconds):
            self.kill()
        _live.discard(self)

    def kill(self) -> None:
        """SIGKILL, and wait for the end. Nothing happens when it does not run."""
        self.signal(signal.SIGKILL)
        self.wait(30.0)
        _live.discard(self)

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of its log, indented, for an error message."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            text = ""
        last = text.splitlines()[-lines:] or ["(nothing)"]
        return f"last lines of {self.log}:\n" + "\n".join(f"    {line}" for line in last)

    def wait_until_ready(self, ask: Callable[[], str | None], seconds: float) -> None:
        """Ask until the answer is None (ready) rather than a problem.

        Raises SandboxError with the last lines of the log when the child ends, or is not ready in time.
        """
        deadline = time.monotonic() + seconds
        problem: str | None = "it was not asked"
        while time.monotonic() < deadline:
            if self.returncode is not None:
                _live.discard(self)
                how = f"ended with exit status {self.returncode} before it was ready"
                raise SandboxError(f"{self.name} {how}; {self.log_tail()}")
            problem = ask()
            if problem is None:
                return
            time.sleep(0.05)
        self.kill()
        raise SandboxError(f"{self.name} was not ready within {seconds:.0f} s ({problem}); {self.log_tail()}")

    def run_to_end(self, argv: Sequence[str], seconds: float, what: str) -> None:
        """Run a program that ends by itself. Raises SandboxError when it fails or exceeds `seconds`."""
        self.start(argv)
        if not self.wait(seconds):
            self.kill()
            raise SandboxError(f"{what} did not end within {seconds:.0f} s; {self.log_tail()}")
        _live.discard(self)
        if self.returncode != 0:
            raise SandboxError(f"{what} failed with exit status {self.returncode}; {self.log_tail()}")


@atexit.register
def _stop_all() -> None:
    mine = [child for child in _live if child._owner == os.getpid()]
    for child in mine:
        child.signal(signal.SIGTERM)
    deadline = time.monotonic() + 10.0
    for child in mine:
        child.stop(max(0.1, deadline - time.monotonic()))
