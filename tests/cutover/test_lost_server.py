"""A server is gone when nothing answers; one that refuses is not."""

from __future__ import annotations

import pytest

from migrate.cutover import lost_server
from migrate.model.errors import PreflightError
from migrate.settings import Settings, parse
from sandbox.ports import free_port
from sandbox.stack import Sandbox
from tests.failover.support import frozen
from tests.helpers import address, raw_settings


def stream(box: Sandbox, **changes: object) -> Settings:
    sources = [{"name": "t0", **address(box.targets[0])}, {"name": "t1", **address(box.targets[1], **changes)}]
    tables = [{"name": "shop.t", "source": one, "sharding": {"nodes": f"ds_0.{one}"}} for one in ("t0", "t1")]
    return parse(raw_settings(sources=sources, tables=tables), {})


def test_only_what_nothing_answers_for_is_gone(box: Sandbox) -> None:
    lost_server.refuse_answering(stream(box).sources, [])
    lost_server.refuse_answering(stream(box, port=free_port()).sources, ["t1"])
    with frozen(box.targets[1].pid):  # as behind a firewall that says nothing
        lost_server.refuse_answering(stream(box).sources, ["t1"], 1.0)
    with pytest.raises(PreflightError, match="'t1' answers"):
        lost_server.refuse_answering(stream(box).sources, ["t1"])
    with pytest.raises(PreflightError, match=r"'t1' answers, and refuses: .*wrong user or password"):
        lost_server.refuse_answering(stream(box, password="wrong-one").sources, ["t1"])


def test_a_name_that_is_no_server_there_is_told_with_those_that_are(box: Sandbox) -> None:
    with pytest.raises(PreflightError, match="no server there is named 'main'"):
        lost_server.known(["main"], stream(box))
