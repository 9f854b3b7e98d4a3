"""Cases as files of SQL: what stands before `migrate init`, what is written before the copy, and what behind it.

    -- A sentence about the case.
    -- flavours: mariadb          (both without this line)
    -- tables: one, two           (no two cases have a table of the same name)
    -- ddl: ignore                (tables[].ddl)
    -- refused: words             (preflight and init refuse it, with these words)
    -- open: why                  (it is not right yet, and not replayed)
    -- prepare | early | live | target
    STATEMENT;

Those of a case run in one session of an application at the source, `target` at the target's database in between.
`{labels}` stands for so many labels of an ENUM that they are larger than a message may be, `{line_end}` for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PHASES = ("prepare", "early", "live", "target")
_LABELS = ",".join(f"'{number:04}{'x' * 240}'" for number in range(4_200))


@dataclass(frozen=True)
class Case:
    """steps: phase and statement, in order."""

    name: str
    flavours: tuple[str, ...]
    tables: tuple[str, ...]
    ddl: str
    refused: str
    open: str
    steps: tuple[tuple[str, str], ...]

    def statements(self, *phases: str) -> Iterator[tuple[str, str]]:
        """Phase and statement of some phases, in order."""
        return ((phase, sql) for phase, sql in self.steps if phase in phases)


def cases(flavour: str) -> list[Case]:
    """Those of a server of this flavour."""
    found = [_read(path) for path in sorted(Path(__file__).parent.glob("*.sql"))]
    return [case for case in found if flavour in case.flavours]


def _read(path: Path) -> Case:
    told: dict[str, str] = {}
    steps: list[tuple[str, str]] = []
    phase, pending = "", ""
    for line in path.read_text("utf-8").splitlines():
        if named := re.fullmatch(r"-- (flavours|tables|ddl|refused|open): (.+)", line):
            told[named[1]] = named[2]
        elif line.startswith("-- "):
            phase = line[3:] if line[3:] in PHASES else phase
        else:
            pending += line
            if line.endswith(";"):
                steps.append((phase, pending[:-1].replace("{labels}", _LABELS).replace("{line_end}", "\n")))
                pending = ""
    assert not pending, path
    assert all(phase for phase, _ in steps), path
    flavours = tuple(told.get("flavours", "mariadb, mysql").split(", "))
    tables = tuple(told["tables"].split(", "))
    ddl, refused, why = (told.get(name, other) for name, other in (("ddl", "stop"), ("refused", ""), ("open", "")))
    return Case(path.stem, flavours, tables, ddl, refused, why, tuple(steps))
