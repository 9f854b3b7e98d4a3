"""A link between a process and a server that can be cut, closed in one direction, or slow."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from sandbox.ports import HOST, free_port

_DELAY = 0.1  # seconds, each way


class Upstream(Protocol):
    host: str
    port: int


@dataclass(slots=True)
class _Pair:
    client: socket.socket
    server: socket.socket

    def end(self) -> None:
        for one in (self.client, self.server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def end_answers(self) -> None:
        """The client is told that the server says no more; what it says itself still gets through."""
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_WR)


class Link:
    """An address that leads to a server. Without a fault it passes everything on."""

    def __init__(self, upstream: Upstream | None = None) -> None:
        self.host, self.port = HOST, free_port()
        self.upstream = upstream
        self.opened = 0  # connections that were asked for since it was made
        self._fault = ""
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._listener = socket.create_server((self.host, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._end_all()

    @contextmanager
    def fault(self, kind: str) -> Iterator[None]:
        """For the time of the block, one of these, or "" for none.

        "cut": nothing gets through and new connections end at once; "half": no answers come, on new connections
        neither; "slow": everything takes 100 ms each way.
        """
        with self._lock:
            self._fault = kind
            pairs = [*self._pairs]
        for pair in pairs:
            if kind == "cut":
                pair.end()
            elif kind == "half":
                pair.end_answers()
        try:
            yield
        finally:
            with self._lock:
                self._fault = ""
            if kind == "half":  # as when the dead half is found out
                self._end_all()

    def _end_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.end()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.opened += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            fault, upstream = self._fault, self.upstream
        if fault == "cut" or upstream is None:
            client.close()
            return
        try:
            server = socket.create_connection((upstream.host, upstream.port), 10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        pair = _Pair(client, server)
        with self._lock:
            self._pairs.append(pair)
            fault = self._fault
        if fault == "cut":
            pair.end()
        elif fault == "half":
            pair.end_answers()
        threading.Thread(target=self._pump, args=(pair, server, client), daemon=True).start()
        self._pump(pair, client, server)

    def _pump(self, pair: _Pair, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._fault == "slow":
                    time.sleep(_DELAY)
                if self._fault == "half" and sink is pair.client:
                    continue
                sink.sendall(data)
        pair.end()
        with self._lock, suppress(ValueError):
            self._pairs.remove(pair)
