"""Clients that take their time: others are answered meanwhile, and they are cut."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.waiting import SLOW
from tests.web.support import GOOD, TOKEN, Ground, Web, answer, request, serving

CUT_SECONDS = 5  # that a request may take to arrive
MOST = 512  # connections at a time
STEP_SECONDS = 0.5


@contextmanager
def opened(web: Web, number: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as until:
        yield [until.enter_context(closing(web.connect())) for _ in range(number)]


def begin(connections: list[socket.socket]) -> None:
    """A third has said nothing yet, a third half a header, a third half a body."""
    half = request("POST", body=b"{" + b" " * 99)[:-90]
    for number, connection in enumerate(connections):
        connection.sendall((b"", request()[:20], half)[number % 3])


def dribble(connections: list[socket.socket], until: float) -> list[float]:
    """One byte from each now and then; when each was cut, in seconds from now on, as far as that happened."""
    began, cut = time.monotonic(), []
    with selectors.DefaultSelector() as watched:
        for connection in connections:
            watched.register(connection, selectors.EVENT_READ)
        while watched.get_map() and time.monotonic() - began < until:
            for key, _ in watched.select(STEP_SECONDS):
                cut.append(time.monotonic() - began)
                watched.unregister(key.fileobj)
            for key in list(watched.get_map().values()):
                with suppress(ConnectionError):
                    key.fileobj.send(b"a")  # type: ignore[union-attr]
    return cut


@pytest.fixture(scope="module")
def web(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with serving(ground, tmp_path_factory.mktemp("web"), token=TOKEN) as running:
        yield running


def quickly(web: Web) -> tuple[int, object]:
    began = time.monotonic()
    got = web.ask()
    assert time.monotonic() - began < CUT_SECONDS - 1, "it waited for slow ones to be cut"
    return got


def test_a_hundred_slow_clients_hold_nobody_up_and_are_cut(web: Web) -> None:
    """Lost: the freeze, as applications could not acknowledge while slow clients held all connections."""
    with opened(web, 102) as slow:
        begin(slow)
        assert quickly(web) == (200, GOOD)
        cut = dribble(slow, SLOW)
        assert quickly(web) == (200, GOOD)
        assert len(cut) == 102
        assert min(cut) > CUT_SECONDS - 2
        late = [answer(connection) for connection in slow[1:3]]
        assert late == [(408, {"error": f"the request did not arrive within {CUT_SECONDS} s"})] * 2


def test_connections_above_the_limit_are_closed_until_others_end(web: Web) -> None:
    with opened(web, MOST) as slow:
        assert web.ask() == (0, None)
        for connection in slow[:5]:
            connection.close()
        deadline = time.monotonic() + CUT_SECONDS - 2
        while (got := web.ask()) == (0, None) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert got == (200, GOOD)
    assert web.log.count("too many connections") == 1


def test_it_ends_at_once_although_a_slow_client_is_there(ground: Ground, tmp_path: Path) -> None:
    with serving(ground, tmp_path, token=TOKEN) as web, opened(web, 3) as slow:
        begin(slow)
        assert web.ask() == (200, GOOD)
        began = time.monotonic()
        web.child.stop()
        assert time.monotonic() - began < CUT_SECONDS - 1, "it waited for the slow one to be cut"
        assert web.child.returncode == 0
