"""A cursor over bytes that never reads past their end."""

from __future__ import annotations


class Reader:
    """Reads numbers and bytes in turn; ValueError when there are not enough left."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise ValueError(f"ends early: {count} bytes wanted, {self.left} left")
        start = self._at
        self._at = start + count
        return self._data[start : self._at]

    def uint(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        """A length-encoded integer: one byte up to 250, else 252, 253 or 254 and 2, 3 or 8 bytes."""
        first = self.uint(1)
        if first < 251:
            return first
        size = {252: 2, 253: 3, 254: 8}.get(first)
        if size is None:
            raise ValueError(f"has a length that begins with {first}")
        return self.uint(size)

    def all_packed(self) -> list[int]:
        """Every length-encoded integer up to the end."""
        numbers = []
        while self.left:
            numbers.append(self.packed())
        return numbers

    def finish(self) -> None:
        if self.left:
            raise ValueError(f"has {self.left} bytes left over")
