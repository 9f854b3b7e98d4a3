"""Which servers are encrypted, what the config may say of it, and what is named as plain."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from migrate.cli.status_page import page
from migrate.model.errors import ConfigError
from migrate.preflight.result import Verdict
from migrate.preflight.server import channels
from migrate.settings import Server, parse
from migrate.settings.plain import plain_channels
from migrate.status.snapshot import Snapshot
from tests.helpers import make_settings, raw_settings

ACCOUNT = {"user": "u", "password": "Strong-4711"}
AWAY = {"host": "db.internal", **ACCOUNT}


def server(host: str, **tls: Any) -> Server:
    return Server.model_validate({"host": host, **ACCOUNT, "tls": tls})


@pytest.mark.parametrize(
    ("host", "tls", "encrypted"),
    [
        ("db.internal", {}, True),
        ("10.0.0.7", {}, True),
        ("0.0.0.0", {}, True),  # noqa: S104
        ("localhost.evil.example", {}, True),
        ("db.internal", {"mode": "off"}, False),
        ("db.internal", {"mode": False}, False),  # as YAML reads an unquoted off
        ("127.0.0.1", {}, False),
        ("127.8.8.8", {}, False),
        ("::1", {}, False),
        ("LocalHost", {}, False),
        ("127.0.0.1", {"ca": "ca.pem"}, True),
        ("127.0.0.1", {"server_name": "db.internal"}, True),
        ("127.0.0.1", {"mode": "verify"}, True),
    ],
)
def test_a_server_is_encrypted_wherever_the_network_is(host: str, tls: dict[str, Any], encrypted: bool) -> None:
    assert server(host, **tls).is_encrypted is encrypted


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        ({"mode": "off", "ca": "ca.pem"}, "'mode' is 'off', which uses none of them"),
        ({"mode": "required"}, "'off' or 'verify'"),
        ({"certificate": "a.pem"}, "one needs the other"),
        ({"key": "a.key"}, "one needs the other"),
        ({"minimum_version": "1.1"}, "'1.2' or '1.3'"),
        ({"public_key": "rsa.pem"}, "is for 'mode: off'"),
    ],
)
def test_settings_that_have_no_effect_together_are_refused(tls: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(raw_settings(state={**AWAY, "tls": tls}), {})


def test_every_plain_channel_over_a_network_is_named_and_no_other() -> None:
    off = {"tls": {"mode": "off"}}
    settings = make_settings(
        state={**AWAY, **off},
        sources=[{"name": "s", "host": "127.0.0.1", **ACCOUNT, "addresses": ["replica.internal:3307"], **off}],
        targets=[{"name": "t0", **AWAY}, {"name": "t1", **AWAY, "port": 3307, **off}],
        copy={"throttle": {"replicas": [{**AWAY, "port": 3308, **off}]}},
        kafka={"bootstrap": "127.0.0.1:9092,PLAINTEXT://kafka.internal:9092"},
    )
    named = [one.where for one in plain_channels(settings)]
    assert named == [
        "source 's' at replica.internal:3307",
        "target 't1' at db.internal:3307",
        "state server at db.internal:3306",
        "replica at db.internal:3308",
        "Kafka at kafka.internal:9092",
    ]
    found = channels.check(settings)
    assert [(one.verdict, one.subject) for one in found] == [(Verdict.NOTE, where) for where in named]
    assert all(one.mend for one in found)
    shown = Console(width=300)
    with shown.capture() as text:
        shown.print(page(Snapshot("m", ["m"], plain=named, check={"last": None}), None, str))
    assert f"not encrypted: {', '.join(named)}" in text.get()


def test_what_is_encrypted_or_local_is_not_named() -> None:
    settings = make_settings(
        kafka={"bootstrap": "kafka.internal:9092", "security": {"security.protocol": "SASL_SSL"}}, state=AWAY
    )
    assert plain_channels(settings) == []
    assert [one.verdict for one in channels.check(settings)] == [Verdict.PASS]
