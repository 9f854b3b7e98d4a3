"""Whose token may do what (decision 0033)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass

from pydantic import SecretStr

from migrate.settings import Web


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request."""

    instance: str | None = None
    any_instance: bool = False
    reads_switch: bool = True
    reads_metrics: bool = False
    reads_page: bool = False
    name: str = ""
    """Of a person who reads the page."""
    acts: bool = False

    @property
    def only_reads(self) -> str:
        """What a token that has nothing to do with the switch reads."""
        return "this token only reads the page" if self.reads_page else "this token only reads metrics"

    def refusal(self, instance: str) -> str | None:
        """Why this caller cannot acknowledge or leave as an instance; None where it can."""
        if not self.reads_switch:
            return self.only_reads
        if self.any_instance or self.instance == instance:
            return None
        if self.instance is None:
            return "this token only reads the switch; use the instance's own token, from web.tokens"
        return f"this token is for the instance '{self.instance}' only"


class Tokens:
    """Every token, as digests."""

    def __init__(self, settings: Web) -> None:
        known = [(secret, Caller(instance)) for instance, secret in settings.tokens.items()]
        if settings.token is not None:
            known.append((settings.token, Caller(any_instance=settings.is_shared, reads_metrics=True)))
        if settings.metrics_token is not None:
            known.append((settings.metrics_token, Caller(reads_switch=False, reads_metrics=True)))
        acting = settings.operators if settings.actions else {}
        people = {
            name: Caller(reads_switch=False, reads_page=True, name=name, acts=name in acting)
            for name in settings.people
        }
        known += [(secret, people[name]) for name, secret in settings.people.items()]
        self._known = [(_digest(f"Bearer {secret.get_secret_value()}".encode()), caller) for secret, caller in known]
        self._known += [(_digest(_basic(name, secret)), people[name]) for name, secret in settings.people.items()]
        self.has_readers = bool(people)

    def caller(self, authorization: bytes) -> Caller | None:
        """Whose the value of an Authorization header is; None where it is nobody's.

        Every token is compared, in a time that does not depend on the values.
        """
        found, given = None, _digest(authorization)
        for digest, caller in self._known:
            if hmac.compare_digest(given, digest):
                found = caller
        return found


def _basic(name: str, secret: SecretStr) -> bytes:
    """As a browser sends what a person typed (RFC 7617)."""
    return b"Basic " + base64.b64encode(f"{name}:{secret.get_secret_value()}".encode())


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()
