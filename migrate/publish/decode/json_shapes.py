"""Functions for JSON objects of one shape, which most documents of a column share: their keys' entries are the same.

A shape gets its function when it was met often enough, so that documents of ever new shapes cost no compilation each.
Format: see ``json_binary``, whose general way everything else takes. The functions do the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final

Reader = Callable[[bytes, int, int], tuple[str, int]]
"""Takes the document, where the object begins behind its type byte, and its depth; returns text and size."""

_OFTEN: Final = 32
_SHAPES: Final = 512
_SEEN: Final = 4096
_ENTRY: Final = Struct("<HH")
_HEAD: Final = 4
_KEY_ENTRY: Final = 4
_VALUE_ENTRY: Final = 3

_MEMBER: Final = """\
 if t{0} == 12:
  at = base + v{0}
  n = b[at]
  at += 1
  if n > 127: n, at = LENGTH(b, at - 1)
  used += n + 1
  if at + n > end: raise ValueError(MALFORMED)
  x{0} = QUOTE(b[at:at + n].decode())
 elif t{0} == 5: x{0} = (v{0} ^ 32768) - 32768
 elif t{0} == 6: x{0} = f"{{INTEGER}}{{v{0}}}"
 elif t{0} == 4: x{0} = LITERALS[v{0} & 255]
 elif t{0} == 7:
  x{0}, = INT32(b, base + v{0})
  used += 4
  if v{0} + 4 > size: raise ValueError(MALFORMED)
 else:
  x{0}, n = VALUE(b, t{0}, base + v{0}, depth)
  used += n
  if used > size or v{0} + n > size: raise ValueError(MALFORMED)
"""


class Shapes:
    """Readers of small objects by the bytes of their key entries.

    ``runtime`` has what the functions call: INTEGER (the mark of a small unsigned one), LENGTH, QUOTE, LITERALS, VALUE,
    MALFORMED, DEPTH (the largest there may be), and KEYS, which makes the printed keys of key entries and the bytes of
    their names.
    """

    def __init__(self, runtime: Mapping[str, object]) -> None:
        self._runtime = {**runtime, "INT32": Struct("<i").unpack_from}
        self._seen: dict[bytes, int] = {}
        self.readers: dict[bytes, Reader] = {}

    def met(self, raw_keys: bytes) -> None:
        """Count an object that has no reader yet."""
        times = self._seen.get(raw_keys, 0) + 1
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen[raw_keys] = times
        if times != _OFTEN:
            return
        reader = self._make(raw_keys)
        if reader is not None:
            if len(self.readers) >= _SHAPES:
                self.readers.clear()
            self.readers[raw_keys] = reader

    def _make(self, raw_keys: bytes) -> Reader | None:
        """None where the names do not follow the entries, one behind the other, as the server writes them."""
        entries = list(_ENTRY.iter_unpack(raw_keys))
        first = at = _HEAD + (_KEY_ENTRY + _VALUE_ENTRY) * len(entries)
        for offset, length in entries:
            if offset != at:
                return None
            at += length
        members = range(len(entries))
        layout = Struct(f"<2xH{len(raw_keys)}x{'BH' * len(entries)}{at - first}s")
        numbers = "".join(f"t{index}, v{index}, " for index in members)
        keys = "".join(f"k{index}, " for index in members)
        pieces = ", ".join(f"{{k{index}}}{{x{index}}}" for index in members)
        source = (
            "def read(b, base, depth):\n"
            f" size, {numbers}names = UNPACK(b, base)\n"
            " end = base + size\n"
            f" used = {at}\n"
            " if depth > DEPTH or end > len(b) or used > size: raise ValueError(MALFORMED)\n"
            f"{''.join(_MEMBER.format(index) for index in members)}"
            " if used > size: raise ValueError(MALFORMED)\n"
            f" {keys} = NAMES(names)\n"
            f' return f"{{{{{pieces}}}}}", size\n'
        )
        namespace: dict[str, object] = {**self._runtime, "__builtins__": {"ValueError": ValueError, "len": len}}
        namespace |= {"UNPACK": layout.unpack_from, "NAMES": _Names(raw_keys, self._runtime["KEYS"]).__getitem__}
        exec(source, namespace)  # noqa: S102  numbers only
        return namespace["read"]  # type: ignore[return-value]


class _Names(dict[bytes, tuple[str, ...]]):
    """The printed keys by the bytes of their names."""

    def __init__(self, raw_keys: bytes, keys: object) -> None:
        super().__init__()
        self._raw_keys = raw_keys
        self._keys: Callable[[int, bytes, bytes], tuple[str, ...]] = keys  # type: ignore[assignment]

    def __missing__(self, names: bytes) -> tuple[str, ...]:
        if len(self) >= _SHAPES:
            self.clear()
        found = self[names] = self._keys(0, self._raw_keys, names)
        return found
