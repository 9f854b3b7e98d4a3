"""Requests that no client of ours sends: each is answered by JSON, and none is a line of the log."""

from __future__ import annotations

import fcntl
import json
import socket
import sys
import termios
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from migrate.web.switch import STATE_SECONDS
from tests.failover.support import frozen, wait
from tests.web.support import GOOD, Ground, Web, accepted, answer, request, serving


@pytest.fixture(scope="module")
def web(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with serving(ground, tmp_path_factory.mktemp("web"), token="canary-shared-4711") as running:
        yield running


def chunked(*parts: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))
    return request("POST", more="Transfer-Encoding: chunked\r\n") + chunks


def sized(length: str, body: bytes = b"") -> bytes:
    return request("POST", more=f"Content-Length: {length}\r\n") + body


GIVEN = b'{"instance": "web-1", "version": 1}'
DEEP = b'{"instance": ' + b"[" * 2000 + b"]" * 2000 + b"}"


REQUESTS: dict[str, tuple[bytes, int]] = {
    "length-of-5000-digits": (sized("9" * 5000), 400),
    "length-of-19-digits": (sized("9" * 19), 400),
    "negative-length": (sized("-1", GIVEN), 400),
    "signed-length": (sized("+35", GIVEN), 400),
    "two-lengths": (sized("35\r\nContent-Length: 36", GIVEN), 400),
    "length-of-chunks": (sized("35\r\nTransfer-Encoding: chunked", GIVEN + b"\r\n"), 400),
    "a-byte-too-long": (sized("4097", b" " * 4097), 400),
    "half-a-megabyte": (sized("500000", b" " * 500_000), 400),
    "no-body": (request("POST"), 400),
    "chunk-too-long": (chunked(b" " * 4097), 400),
    "many-chunks": (chunked(*[b" " * 1000] * 400), 400),
    "chunk-size-of-no-digits": (chunked()[:-5] + b"zz\r\n", 400),
    "negative-chunk-size": (chunked()[:-5] + b"-1\r\n", 400),
    "broken-json": (request("POST", body=b"{"), 400),
    "not-utf-8": (request("POST", body=b'{"instance": "\xff", "version": 1}'), 400),
    "deep": (request("POST", body=DEEP), 400),
    "deep-without-end": (request("POST", body=b"[" * 4000), 400),
    "surrogate": (request("POST", body=b'{"instance": "\\ud800", "version": 1}'), 400),
    "surrogates-in-the-wrong-order": (request("POST", body=b'{"instance": "a\\udfff\\ud83d", "version": 1}'), 400),
    "version-of-4000-digits": (request("POST", body=b'{"instance": "a", "version": ' + b"9" * 4000 + b"}"), 400),
    "version-nan": (request("POST", body=b'{"instance": "a", "version": NaN}'), 400),
    "version-float": (request("POST", body=b'{"instance": "a", "version": 1.0}'), 400),
    "long-header": (request(more="X: " + "a" * 70_000 + "\r\n"), 400),
    "many-headers": (request(more="X: a\r\n" * 10_000), 400),
    "long-path": (request(path="/" + "a" * 70_000), 400),
    "tls-hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\r\n\r\n", 400),
    "no-version": (b"GET /switch\r\n\r\n", 400),
    "websocket": (request(more="Upgrade: websocket\r\nConnection: Upgrade\r\n"), 200),
    "continue": (request("POST", body=b"{", more="Expect: 100-continue\r\n"), 400),
    "two-tokens": (request(token="canary-shared-4711\r\nAuthorization: Bearer canary-shared-4711"), 401),
    "no-token": (b"GET /switch HTTP/1.0\r\n\r\n", 401),
    "token-beyond-ascii": (request(token="\xff"), 401),
    "token-wrong-and-a-long-body": (request("PUT", "/nothing", body=b"x" * 300_000, token="wrong"), 401),
    "put": (request("PUT", body=GIVEN), 405),
    "delete-of-the-switch": (request("DELETE"), 405),
    "get-of-an-instance": (request("GET", "/switch/web-1"), 405),
    "slash": (request("GET", "/switch/"), 405),
    "nobody": (request("DELETE", "/switch/"), 404),
    "bytes-that-are-no-text": (request("DELETE", "/switch/%ff%00"), 404),
    "root": (request("GET", "/"), 404),
    "double-slash": (request("GET", "//switch"), 404),
    "post-elsewhere": (request("POST", "/status", body=GIVEN), 404),
}


@pytest.mark.parametrize(("sent", "status"), REQUESTS.values(), ids=REQUESTS)
def test_it_is_answered_by_json_and_not_by_a_traceback(web: Web, ground: Ground, sent: bytes, status: int) -> None:
    """Lost: the answer to everybody, by a request that no client of ours sends, such as a length of 5,000 digits."""
    code, body = web.send(sent)
    assert (code, list(body)) == (status, ["error"] if status != 200 else list(GOOD)), body
    assert web.ask() == (200, GOOD)
    assert ground.acknowledged() == []
    log = web.log
    assert (log.count("\n"), "Traceback" in log) == (3, False), log


def test_a_body_that_is_too_long_is_read_so_that_its_client_sees_the_answer(web: Web) -> None:
    with closing(web.connect()) as connection:
        connection.sendall(sized("500000"))
        for _ in range(20):
            connection.sendall(b" " * 25_000)
            wait(lambda: not_received(connection) == 0, "the server to read")
        assert answer(connection) == (400, {"error": "a body of up to 4096 bytes is needed"})


def not_received(connection: socket.socket) -> int:
    """Bytes that the other side has not acknowledged yet (tcp(7), SIOCOUTQ)."""
    return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def test_a_client_that_closes_its_side_after_the_request_is_answered(web: Web) -> None:
    for sent, got in ((request(), (200, GOOD)), (request()[:-1], (0, None))):
        with closing(web.connect()) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert answer(connection) == got


def test_a_body_in_chunks_is_taken_and_one_request_is_answered_a_connection(web: Web, ground: Ground) -> None:
    assert accepted(web.send(chunked(GIVEN[:10], GIVEN[10:])))
    assert ground.acknowledged() == [("web-1", 1)]
    assert web.send(request("DELETE", "/switch/web-1") + request("POST", body=json.loads(GIVEN)) * 100) == (200, {})
    assert ground.acknowledged() == []


def test_while_the_state_database_hangs_the_loop_does_not(web: Web, ground: Ground) -> None:
    with ThreadPoolExecutor(40) as threads, frozen(ground.server.pid):
        waiting = [threads.submit(web.ask) for _ in range(40)]
        wait(lambda: any(one.running() for one in waiting), "them to wait")
        began = time.monotonic()
        for _ in range(5):
            assert web.ask(token="wrong")[0] == 401
        assert time.monotonic() - began < 5 * STATE_SECONDS, "each waited for the state database"
        answers = [one.result() for one in waiting]
    assert answers == [(503, {"error": "the state database does not answer"})] * 40
    wait(lambda: web.ask() == (200, GOOD), "it to answer again")
