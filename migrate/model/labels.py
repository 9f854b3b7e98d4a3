"""The labels of an ENUM or a SET, from its type as a catalog writes it."""

from __future__ import annotations

import re

_LABEL = re.compile(r"'((?:[^']|'')*)'")
_WRITTEN = re.compile(r"''|\\(.)", re.DOTALL)
_MEANT = {"0": "\0", "n": "\n", "r": "\r"}


def labels_of(type_: str) -> list[str]:
    """In their order.

    type_: COLUMN_TYPE, with each quote twice, and NUL, line ends and backslashes behind a backslash (both servers,
    `append_unescaped`).
    """
    return [_WRITTEN.sub(_meant, label) for label in _LABEL.findall(type_)]


def _meant(written: re.Match[str]) -> str:
    sign = written[1]
    return "'" if sign is None else _MEANT.get(sign, sign)
