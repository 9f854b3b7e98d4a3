"""Channels in plain: the config says so, and they are named."""

from __future__ import annotations

from migrate.preflight.result import Result, Verdict
from migrate.settings import Settings
from migrate.settings.plain import plain_channels


def check(settings: Settings) -> list[Result]:
    """A note for each server, and Kafka, that is spoken to in plain over the network."""
    found = [Result("encryption", one.where, Verdict.NOTE, str(one), one.remedy) for one in plain_channels(settings)]
    told = "servers and Kafka: encrypted, or on this machine"
    return found or [Result("encryption", "channels", Verdict.PASS, told)]
