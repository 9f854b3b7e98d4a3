"""A token for Kafka, from a program that is run whenever another one is needed (SASL OAUTHBEARER, RFC 7628)."""

from __future__ import annotations

import base64
import json
import threading
import time
from binascii import Error as Base64Error
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

from migrate.model.errors import ServerError
from migrate.secret_program import printed

_SECONDS = 20.0
_FRESH = 0.75
"""Of its time, for which a token is given to further clients; librdkafka asks for another one after 0.8 of it."""
_HINT = (
    "it is to print the token, in the next line the Unix time at which that ends unless the token says so itself, and"
    " nothing else"
)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    got: float
    ends: float
    """Unix seconds, as `got`."""

    @property
    def is_fresh(self) -> bool:
        return time.time() < self.got + _FRESH * (self.ends - self.got)


class Tokens:
    """The token of this process, of one program."""

    def __init__(self, command: Sequence[str], variables: Collection[str]) -> None:
        self._command, self._variables = command, variables
        self._where = f"kafka.token_command '{command[0]}'"
        self._turn = threading.Lock()
        self._token: _Token | None = None

    def require(self) -> None:
        """Have a token, before a client waits for one. Raises ServerError, with the reason."""
        self("")

    def __call__(self, _config: str) -> tuple[str, float]:
        """What a client calls for a token (librdkafka, "oauthbearer_token_refresh_cb"): the token, and when it ends,
        Unix seconds. An error is the client's, which tries again."""
        with self._turn:
            if self._token is None or not self._token.is_fresh:
                self._token = self._another()
            return self._token.text, self._token.ends

    def _another(self) -> _Token:
        lines = printed(self._command, self._variables, _SECONDS, self._where, _HINT)
        if not 1 <= len(lines) <= 2 or not lines[0]:
            raise ServerError(f"{self._where}: printed {len(lines)} lines instead of one or two", hint=_HINT)
        ends, now = (_seconds(lines[1]) if len(lines) > 1 else end_of(lines[0])), time.time()
        if ends is None:
            raise ServerError(f"{self._where}: when the token ends is not known", hint=_HINT)
        if ends <= now:
            raise ServerError(f"{self._where}: the token has ended already", hint="see the clock of both machines")
        return _Token(lines[0], now, ends)


@cache
def of(command: tuple[str, ...], variables: tuple[str, ...]) -> Tokens:
    """The one of this process for that program."""
    return Tokens(command, variables)


def end_of(token: str) -> float | None:
    """When a JSON Web Token ends (RFC 7519, "exp"), Unix seconds; None where it does not say, or is another kind."""
    parts = token.split(".")
    if len(parts) < 2:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, Base64Error):
        return None
    return _seconds(claims.get("exp")) if isinstance(claims, dict) else None


def _seconds(written: object) -> float | None:
    try:
        return float(written) if isinstance(written, str | int | float) else None
    except ValueError:
        return None
