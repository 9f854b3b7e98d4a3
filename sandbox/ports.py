"""Free TCP ports on the loopback interface."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from sandbox.errors import SandboxError

HOST = "127.0.0.1"
_LOWEST = 15000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT will do
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A free port below the ephemeral range, so that no outgoing connection takes it while a server restarts.

    It is ours as long as this process runs: no other sandbox chooses it before its server listens, or while that is
    down. Raises SandboxError when a thousand tries find none.
    """
    highest = int(_RANGE.read_text().split()[0]) - 1 if _RANGE.exists() else 32767
    if highest - _LOWEST < 1000:
        highest = 65535
    for _ in range(1000):
        port = random.randint(_LOWEST, highest)
        if is_free(port) and _reserved(port):
            return port
    raise SandboxError(f"no free port on {HOST} between {_LOWEST} and {highest}")


def _reserved(port: int) -> bool:
    """Whether no other process has it by a lock on its file, which ends with the process."""
    directory = Path(tempfile.gettempdir(), f"sandbox-ports-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    file = os.open(directory / str(port), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    return True


def require_free(port: int, who: str) -> None:
    """Raises SandboxError when `port` is taken; `who` names the server that wants it."""
    if not is_free(port):
        raise SandboxError(
            f"{who}: port {port} on {HOST} is in use; stop what listens there, or give another port "
            "(without one the sandbox chooses a free one)"
        )
