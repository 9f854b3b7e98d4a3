"""A server that is nobody's: it greets as MySQL does, and asks for the password as its script says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

from pymysql.constants import CLIENT

SALT = b"s" * 20
SWITCH, MORE = b"\xfe", b"\x01"


class Impostor:
    """Use as a context manager. script: what it says to each packet of the client's, packet by packet.

    heard: the packets that came, each without its head.
    """

    def __init__(self, plugin: str, script: Sequence[bytes], tls: bool = False) -> None:
        self._plugin, self._script, self._tls = plugin, script, tls
        self.heard: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Impostor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def done(self) -> list[bytes]:
        """What it heard, once the client has gone."""
        self._thread.join(10)
        assert not self._thread.is_alive(), "the client has not closed its connection"
        return self.heard

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client, client.makefile("rb") as incoming, suppress(OSError):
            client.sendall(_packet(self._greeting(), 0))
            for answer in self._script:
                if (number := self._hear(incoming)) is None:
                    return
                client.sendall(_packet(answer, number + 1))
            while self._hear(incoming) is not None:
                pass

    def _hear(self, incoming: object) -> int | None:
        head = incoming.read(4)  # type: ignore[attr-defined]
        if len(head) < 4:
            return None
        self.heard.append(incoming.read(int.from_bytes(head[:3], "little")))  # type: ignore[attr-defined]
        return int(head[3])

    def _greeting(self) -> bytes:
        flags = CLIENT.PROTOCOL_41 | CLIENT.SECURE_CONNECTION | CLIENT.PLUGIN_AUTH | CLIENT.LONG_PASSWORD
        bits = (flags | (CLIENT.SSL if self._tls else 0)).to_bytes(4, "little")
        return (
            b"\x0a8.4.0\0" + bytes(4) + SALT[:8] + b"\0" + bits[:2] + b"\x2d\x02\0" + bits[2:]
            + bytes([21]) + bytes(10) + SALT[8:] + b"\0" + self._plugin.encode() + b"\0"
        )  # fmt: skip


def _packet(body: bytes, number: int) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number % 256]) + body
