"""Who gets alarms: a command, a webhook, a service of the library apprise."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from email.message import Message
from http.client import HTTPException
from typing import IO

from migrate.alarms.letter import Letter
from migrate.model.errors import ConfigError, ServerError
from migrate.settings import Alarms, Receiver

_KEPT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})


def deliver(receiver: Receiver, letter: Letter, settings: Alarms) -> None:
    """Raises ServerError with why it was not taken, without any address or secret; ConfigError without the library."""
    if receiver.command:
        _run(receiver, letter)
    elif receiver.webhook is not None:
        _post(receiver, letter, settings)
    else:
        _notify(receiver, letter)


def _refused(receiver: Receiver, why: str) -> ServerError:
    return ServerError(f"receiver '{receiver.name}': {why}", hint="`migrate alarms test` tries it again")


def _run(receiver: Receiver, letter: Letter) -> None:
    wanted = {*_KEPT, *receiver.environment}
    kept = {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}
    facts = {f"MIGRATE_{name.upper()}": value.replace("\0", "") for name, value in letter.facts.items()}
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            receiver.command, stdin=quiet, stdout=quiet, stderr=quiet, env=kept | facts, start_new_session=True
        )
    except OSError as error:
        raise _refused(receiver, f"{receiver.command[0]}: {error.strerror}") from error
    try:
        code = process.wait(receiver.seconds)
    except subprocess.TimeoutExpired as error:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        process.wait()
        raise _refused(receiver, f"it did not end within {receiver.seconds:g} s") from error
    if code:
        raise _refused(receiver, f"exit status {code}")


class _Stay(urllib.request.HTTPRedirectHandler):
    """What is sent to one address goes to no other."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


def _post(receiver: Receiver, letter: Letter, settings: Alarms) -> None:
    assert receiver.webhook is not None  # noqa: S101 - whoever calls has looked
    body: object = letter.facts
    if receiver.form == "slack":
        body = letter.slack()
    elif receiver.form == "alertmanager":
        body = letter.alertmanager(settings.repeat_seconds)
    headers = {"Content-Type": "application/json", "User-Agent": "migrate"}
    if receiver.authorization is not None:
        headers["Authorization"] = receiver.authorization.get_secret_value()
    try:
        asked = urllib.request.Request(  # noqa: S310 - the settings take http and https alone
            receiver.webhook.get_secret_value(), json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.build_opener(_Stay).open(asked, timeout=receiver.seconds) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        error.close()
        raise _refused(receiver, f"it answers {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:  # their texts may have the address
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or type(reason).__name__
        raise _refused(receiver, f"it does not take it: {why}") from None


def _notify(receiver: Receiver, letter: Letter) -> None:
    assert receiver.apprise is not None  # noqa: S101 - whoever calls has looked
    try:
        import apprise
    except ImportError:
        hint = "install it: pip install 'migrate[apprise]'"
        raise ConfigError(f"alarms.to: receiver '{receiver.name}' needs the library apprise", hint=hint) from None
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it would tell addresses
    service = apprise.Apprise()
    if not service.add(receiver.apprise.get_secret_value()):
        raise _refused(receiver, "apprise does not know this kind of URL")
    if not service.notify(title=letter.title, body=f"{letter.alarm.message}\n{letter.alarm.remedy}"):
        raise _refused(receiver, "it was not taken")
