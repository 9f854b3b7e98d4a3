"""What each kind of receiver gets, and what is said of one that does not take it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from migrate.alarms.letter import Letter, Status, trial
from migrate.alarms.receivers import deliver
from migrate.model.errors import ConfigError, MigrateError, ServerError
from migrate.settings import Alarms, Receiver, secrets_of
from tests.alarms.receiver import receiving
from tests.failover.support import wait
from tests.helpers import make_settings

LETTER = trial("shop", Status.RAISED)


def hook(url: str, **more: Any) -> Receiver:
    return Receiver(name="one", webhook=SecretStr(url), **more)


def send(receiver: Receiver, letter: Letter = LETTER) -> None:
    deliver(receiver, letter, Alarms(repeat_seconds=60))


def test_a_webhook_gets_the_facts_as_json_with_its_authorization() -> None:
    with receiving() as server:
        send(hook(server.url, authorization=SecretStr("Bearer canary-4711")))
        ((path, headers, body),) = server.got
    assert path == "/hook/canary-path-4711"
    assert (headers["Authorization"], headers["Content-Type"]) == ("Bearer canary-4711", "application/json")
    wanted = {"migration": "shop", "alarm": "test", "subject": "", "status": "raised", "remedy": "migrate status"}
    assert {name: body[name] for name in wanted} == wanted
    assert set(body) == {*wanted, "message", "since", "at"}
    assert body["at"].endswith("+00:00")


def test_slack_gets_a_text_in_which_nothing_is_markup() -> None:
    with receiving() as server:
        alarm = LETTER.alarm.__class__("lag", "<!channel>", "a & b", "migrate status", LETTER.at, LETTER.at, None)
        send(hook(server.url, form="slack"), Letter("shop", alarm, Status.RAISED, LETTER.at))
        (text,) = [body["text"] for _, _, body in server.got]
    assert text == "*[raised] migration shop: lag &lt;!channel&gt;*\na &amp; b\n`migrate status`"


def test_alertmanager_gets_an_alert_that_outlives_the_repeat_and_ends_when_it_is_over() -> None:
    with receiving() as server:
        for status in (Status.RAISED, Status.RESOLVED):
            send(hook(server.url, form="alertmanager"), trial("shop", status))
        (raised,), (resolved,) = [body for _, _, body in server.got]
    assert raised["labels"] == resolved["labels"] == {"alertname": "Migrate test", "migration": "shop"}
    assert raised["endsAt"] > raised["startsAt"]
    assert resolved["endsAt"] == resolved["startsAt"]


def test_a_command_gets_the_facts_in_its_environment_and_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_PASSWORD", "canary-of-state-4711")
    monkeypatch.setenv("PAGER_KEY", "its own")
    file = tmp_path / "environment"
    script = 'env > "$0"; echo $# >> "$0"'
    send(Receiver(name="one", command=("sh", "-c", script, str(file)), environment=("PAGER_KEY",)))
    lines = file.read_text("utf-8").splitlines()
    assert {"MIGRATE_ALARM=test", "MIGRATE_STATUS=raised", "MIGRATE_MIGRATION=shop", "PAGER_KEY=its own"} <= {*lines}
    assert lines[-1] == "0", "no fact is an argument"
    assert "canary-of-state-4711" not in file.read_text("utf-8")


def _is_gone(process: int) -> bool:
    """Or has ended, and nobody has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    file = tmp_path / "child"
    began = time.monotonic()
    with pytest.raises(ServerError, match=r"receiver 'one': it did not end within 0\.5 s"):
        send(Receiver(name="one", command=("sh", "-c", f"sleep 600 & echo $! > {file}; wait"), seconds=0.5))
    assert time.monotonic() - began < 30
    wait(lambda: _is_gone(int(file.read_text())), "the end of what it started")


@pytest.mark.parametrize(
    ("receiver", "why"),
    [
        ({"command": ("sh", "-c", "exit 3")}, "exit status 3"),
        ({"command": ("/nowhere/at-all",)}, "No such file"),
        ({"webhook": "http://127.0.0.1:1/canary-path-4711"}, "Connection refused"),
        ({"webhook": "http://canary-path-4711.invalid/"}, "does not take it"),
        ({"apprise": "nonsense://canary-path-4711"}, "kind of URL"),
    ],
)
def test_what_is_not_taken_is_said_without_an_address(receiver: dict[str, Any], why: str) -> None:
    if "apprise" in receiver:
        pytest.importorskip("apprise")
    with pytest.raises(ServerError) as caught:
        send(Receiver(name="one", **receiver))
    assert why in caught.value.message
    assert "canary" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("code", [302, 307, 400, 500])
def test_an_answer_that_is_no_success_is_named_and_no_redirect_is_followed(code: int) -> None:
    with receiving() as server:
        server.answers = code
        with pytest.raises(ServerError, match=f"it answers {code}"):
            send(hook(server.url))
        assert server.got == []


def test_a_webhook_that_hangs_is_given_up_after_its_time() -> None:
    with receiving() as server:
        server.hangs = True
        with pytest.raises(ServerError, match="does not take it"):
            send(hook(server.url, seconds=0.3))


def test_apprise_sends_by_a_service_that_it_knows() -> None:
    pytest.importorskip("apprise")
    with receiving() as server:
        send(Receiver(name="one", apprise=SecretStr(server.url.replace("http", "json", 1))))
        ((_, _, body),) = server.got
    assert body["title"] == "[raised] migration shop: test"


@pytest.mark.parametrize(
    ("receiver", "why"),
    [
        ({}, "needs one of command, webhook and apprise"),
        ({"command": ["a"], "webhook": "http://h/x"}, "needs one of"),
        ({"webhook": "file:///etc/passwd"}, "no URL that begins with http"),
        ({"webhook": "https://"}, "no URL that begins with http"),
        ({"command": ["a"], "authorization": "x"}, "authorization goes with a webhook"),
    ],
)
def test_a_receiver_that_cannot_be_is_refused(receiver: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make_settings(alarms={"to": [{"name": "one", **receiver}]})


def test_the_secrets_of_receivers_are_secrets() -> None:
    to = [
        {"name": "a", "webhook": "https://h/canary-1", "authorization": "canary-2"},
        {"name": "b", "apprise": "mailto://canary-3"},
    ]
    settings = make_settings(alarms={"to": to})
    assert {"https://h/canary-1", "canary-2", "mailto://canary-3"} <= secrets_of(settings)
    assert "canary" not in repr(settings.alarms)
    with pytest.raises(MigrateError, match="'a' is there twice"):
        make_settings(alarms={"to": [to[0], to[0]]})
