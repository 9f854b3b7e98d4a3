"""An HTTP server on loopback that keeps what it is sent, refuses, or hangs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sandbox.ports import HOST


@dataclass
class Receiver:
    port: int = 0
    got: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)  # path, headers, JSON
    answers: int = 200
    hangs: bool = False
    waiting: threading.Event = field(default_factory=threading.Event)  # a request hangs
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/hook/canary-path-4711"

    def told(self) -> list[tuple[str, str, str]]:
        """(alarm, subject, status) of each JSON, in order."""
        return [(body["alarm"], body["subject"], body["status"]) for _, _, body in self.got]


@contextmanager
def receiving() -> Iterator[Receiver]:
    one = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if one.hangs:
                one.waiting.set()
                one.over.wait(60)
                return
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if one.answers == 200:
                one.got.append((self.path, dict(self.headers), body))
            self.send_response(one.answers)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    one.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield one
    finally:
        one.over.set()
        server.shutdown()
        server.server_close()
