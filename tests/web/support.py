"""`migrate web` as a process, and clients of it that speak HTTP by hand."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from migrate.settings import State
from migrate.state import switch
from sandbox.database import DatabaseServer
from sandbox.ports import HOST, free_port
from tests.failover.support import wait
from tests.forked import Child
from tests.helpers import address, raw_settings

NAME = "shop"
TOKEN = "canary-shared-4711"
GOOD = {"version": 1, "side": "source", "writes": "open"}
COMMAND = [sys.executable, "-m", "migrate"]
ANSWER_SECONDS = 30.0
"""That a client waits for an answer at most."""


@dataclass(frozen=True)
class Ground:
    """The state database that every server of a module reads."""

    server: DatabaseServer
    settings: State
    state: sa.Engine

    def acknowledged(self) -> list[tuple[str, int]]:
        with self.state.begin() as connection:
            return [(one.instance, one.version) for one in switch.every_application(connection, NAME)]


@dataclass(frozen=True)
class Web:
    """A running `migrate web`."""

    child: Child
    port: int
    tls: ssl.SSLContext | None = None

    @property
    def log(self) -> str:
        return self.child.log.read_text("utf-8")

    def connect(self) -> socket.socket:
        raw = socket.create_connection((HOST, self.port), ANSWER_SECONDS)
        return raw if self.tls is None else self.tls.wrap_socket(raw, server_hostname="localhost")

    def send(self, request: bytes) -> tuple[int, Any]:
        """The status and the JSON answer to the bytes of one request."""
        with closing(self.connect()) as connection:
            connection.sendall(request)
            return answer(connection)

    def ask(self, method: str = "GET", path: str = "/switch", body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        return self.send(request(method, path, body, token))


def accepted(answered: tuple[int, Any]) -> bool:
    """Whether an acknowledgement was taken: the switch as it is, and when that was."""
    status, body = answered
    return status == 200 and {name: body[name] for name in body if name != "seen"} == GOOD and bool(body["seen"])


def request(method: str = "GET", path: str = "/switch", body: Any = None, token: str = TOKEN, more: str = "") -> bytes:
    """body: JSON, or the bytes as they are. more: further header lines, each with its end."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    length = "" if body is None else f"Content-Length: {len(content)}\r\n"
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{length}{more}\r\n"
    return head.encode() + content


def answer(connection: socket.socket) -> tuple[int, Any]:
    """What the server sends until it closes; (0, None) where that is nothing."""
    received = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            received += part
    received = received.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    if not received:
        return 0, None
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower(), received
    return int(head.split()[1]), json.loads(body)


@contextmanager
def serving(
    ground: Ground,
    directory: Path,
    *,
    trusting: ssl.SSLContext | None = None,
    host: str = HOST,
    program: Sequence[str] = (),
    **web: Any,
) -> Iterator[Web]:
    """`migrate web` with these settings of its section, until the block ends; it has to end with 0, and no traceback.

    trusting: what its clients speak TLS by. program: another one, that is given the config's path.
    """
    port = free_port()
    child = start(ground, directory, program, listen=f"{host}:{port}", **web)
    try:
        wait(lambda: "listening" in child.log.read_text("utf-8") or not child.running, "the web server")
        yield Web(child, port, trusting)
        child.stop()
        log = child.log.read_text("utf-8")
        assert (child.returncode, "Traceback" in log) == (0, False), log
    finally:
        child.kill()


def start(ground: Ground, directory: Path, program: Sequence[str] = (), **web: Any) -> Child:
    """The process, at once."""
    state = {**address(ground.server), "database": ground.settings.database}
    config = directory / "migrate.yaml"
    config.write_text(
        yaml.safe_dump(raw_settings(name=NAME, state=state, web=web, run_dir=str(directory / "run"))), "utf-8"
    )
    child = Child("migrate web", directory / "web.log", Path.cwd())
    line = [*program, str(config)] if program else [*COMMAND, "--config", str(config), "web"]
    child.start(line, dict(os.environ))
    return child
