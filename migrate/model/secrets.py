"""Which settings are secrets, and values that are none: samples that everybody tries first."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|(?:api|access|private)[._-]?key|key\.pem|jaas|credential", re.IGNORECASE
)
_SAMPLES = frozenset(
    {
        "",
        "0000",
        "1111",
        "1234",
        "12345",
        "123456",
        "1234567",
        "12345678",
        "123456789",
        "1234567890",
        "111111",
        "000000",
    }
    | {"password", "password1", "passw0rd", "p@ssw0rd", "pass", "secret", "changeme", "change-me", "change_me"}
    | {"root", "toor", "admin", "administrator", "user", "guest", "test", "demo", "example", "sample", "default"}
    | {"mysql", "mariadb", "kafka", "migrate", "qwerty", "abc123", "letmein", "welcome", "a long random one"}
)
"""In small letters; the last one stands in our own documents."""
_BEHIND = re.compile(r"[\W_]*\d{0,8}[\W_]*\Z")
_SAMPLE = "is empty or a sample password; set a real one, for example by ${ENV}"


def is_secret(name: str) -> bool:
    """Whether a setting or an option of this name holds what nobody may see."""
    return _SECRET.search(name) is not None


def refuse_sample(value: str, name: str = "") -> None:
    """Raises ValueError for a secret that everybody tries first, also with a number or signs behind it. name: of the
    option, where that is to be told."""
    lowered = value.strip().lower()
    if lowered in _SAMPLES or (_BEHIND.sub("", lowered) or lowered) in _SAMPLES:
        raise ValueError(f"'{name}' {_SAMPLE}" if name else _SAMPLE)
