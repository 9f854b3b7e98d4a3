"""How far a source's log is read."""

from __future__ import annotations

from migrate.model.coordinate import file_number


class Progress:
    """A file, and a place in it that only rises."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.end = 0  # of the last event of this file
        self._number = -1  # of the file, once it was asked for
        self._beats, self._beat_end = 0, -1  # heartbeats while the end was there

    @property
    def number(self) -> int:
        """Of the file. Raises StopError where its name has none."""
        if self._number < 0:
            self._number = file_number(self.file)
        return self._number

    def enter(self, file: str) -> None:
        """The next file begins."""
        self.file = file
        self.end = 0
        self._number = -1

    def beat(self) -> None:
        """The source has nothing more at present, or passes over something."""
        self._beats = self._beats + 1 if self.end == self._beat_end else 1
        self._beat_end = self.end

    @property
    def idle(self) -> bool:
        """Whether the source said twice that it has nothing more; once may mean that it passes over something."""
        return self._beats > 1 and self.end == self._beat_end
