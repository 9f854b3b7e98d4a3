"""Where a server answers: host and port."""

from __future__ import annotations

import ipaddress
import re

_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^\s:\[\]]+))(?::([0-9]{1,5}))?")


def parse_address(text: str, port: int) -> tuple[str, int]:
    """(host, port) of "host", "host:port" or "[IPv6]:port"; `port` where none is named. Raises ValueError."""
    match = _ADDRESS.fullmatch(text)
    number = int(match[3] or port) if match else 0
    if match is None or not 0 < number < 65536:
        raise ValueError(f"{text!r} is not written as host or host:port")
    return (match[1] or match[2]).lower(), number


def is_loopback(host: str) -> bool:
    """Whether an address, or the name localhost, is of this machine alone; other names may resolve to anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
