"""What a database server and a broker have in common."""

from abc import ABC, abstractmethod
from pathlib import Path

from sandbox.process import Child


class Server(ABC):
    """One child process that can be started again on the same data and ports."""

    _child: Child

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers. Raises SandboxError."""

    def stop(self, seconds: float = 60.0) -> None:
        """Shut it down (SIGTERM), with SIGKILL after `seconds`."""
        self._child.stop(seconds)

    def kill(self) -> None:
        """SIGKILL, as a crash. The data stays."""
        self._child.kill()

    def restart(self) -> None:
        """Stop and start on the same data and ports."""
        self.stop()
        self.start()

    @property
    def running(self) -> bool:
        return self._child.running

    @property
    def pid(self) -> int:
        """Process id. Raises SandboxError when it was never started."""
        return self._child.pid

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._child.log
