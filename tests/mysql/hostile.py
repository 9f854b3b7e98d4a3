"""A server that asks its client for a file: everything passes between client and a real server, but one statement."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from sandbox.database import DatabaseServer

_LOCAL_INFILE = b"\xfb"


class Hostile:
    """Passes packets on; a statement with `trap` in it is answered by asking for `file`. Use as a context manager.

    given: what the client sent as the file's bytes, packet by packet; None until it was asked.
    """

    def __init__(self, server: DatabaseServer, trap: str, file: str) -> None:
        self.given: list[bytes] | None = None
        self._server = server
        self._trap = trap.encode()
        self._file = file.encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Hostile:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((self._server.host, self._server.port))
            self._open += [client, server]
            threading.Thread(target=_pass_on, args=(server, client), daemon=True).start()
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while (packet := _packet(client)) is not None:
                if self._trap not in packet:
                    server.sendall(packet)
                    continue
                body = _LOCAL_INFILE + self._file
                self.given = []
                client.sendall(len(body).to_bytes(3, "little") + b"\x01" + body)
                while (part := _packet(client)) is not None and len(part) > 4:
                    self.given.append(part[4:])
                client.shutdown(socket.SHUT_RDWR)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def _packet(connection: socket.socket) -> bytes | None:
    head = _exactly(connection, 4)
    if head is None:
        return None
    body = _exactly(connection, int.from_bytes(head[:3], "little"))
    return None if body is None else head + body


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = connection.recv(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
