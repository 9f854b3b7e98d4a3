"""The clauses of an ALTER that makes a definition what it was before.

Whether they do, a server is asked: a compensating statement is one only after it was tried on a scratch table and gave
the definition from before, to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from migrate.ddl.definition import Definition

_OPTION = re.compile(r"((?:DEFAULT )?[A-Z_]+|`(?:[^`]|``)+`)=('(?:[^'\\]|\\.|'')*'|\([^)]*\)|\S+)")
_UNSET = {
    "COMMENT": "''",
    "ROW_FORMAT": "DEFAULT",
    "KEY_BLOCK_SIZE": "0",
    "STATS_PERSISTENT": "DEFAULT",
    "STATS_AUTO_RECALC": "DEFAULT",
    "STATS_SAMPLE_PAGES": "DEFAULT",
    "MAX_ROWS": "0",
    "MIN_ROWS": "0",
    "AVG_ROW_LENGTH": "0",
    "CHECKSUM": "0",
    "PACK_KEYS": "DEFAULT",
    "DELAY_KEY_WRITE": "0",
    "COMPRESSION": "''",
    "CONNECTION": "''",
    "PAGE_CHECKSUM": "DEFAULT",
    "TRANSACTIONAL": "DEFAULT",
    "AUTOEXTEND_SIZE": "0",
    "SECONDARY_ENGINE": "NULL",
    "SECONDARY_ENGINE_ATTRIBUTE": "''",
    "ENGINE_ATTRIBUTE": "''",
}
"""What an option is set to so that a definition has it no more; another one of MariaDB's is set to DEFAULT."""
_PERIOD = re.compile(r"PERIOD FOR `(?:[^`]|``)+`")
_VISIBLE = re.compile(r"( /\*!80000 INVISIBLE \*/| IGNORED)$")


def inverse(before: Definition, after: Definition, kept: Mapping[str, str]) -> tuple[str, ...]:
    """The clauses that make `before` of `after`; none where they are equal.

    kept: the present name of each column that has kept its values, by the one before, quoted (`losses.kept`).
    """
    if before.text == after.text:
        return ()
    clauses = [*_constraints_gone(before, after), *_periods_gone(before, after), *_keys(before, after)]
    clauses += [*_columns(before, after, kept), *_periods_back(before, after), *_keys_back(before, after)]
    clauses += [*_constraints_back(before, after), *_options(before, after)]
    if before.partitioning != after.partitioning:
        clauses.append(before.partitioning or "REMOVE PARTITIONING")
    return tuple(clauses)


def statement(clauses: tuple[str, ...], named: str, chosen: tuple[str, ...] = ()) -> str:
    """The ALTER of these clauses. named: the table, quoted; chosen: algorithm and lock, as clauses."""
    first = [*chosen, *clauses]
    last = first.pop() if clauses and _is_partitioning(clauses[-1]) else ""
    return f"ALTER TABLE {named} {', '.join(first)}{' ' if first and last else ''}{last}"


def _is_partitioning(clause: str) -> bool:
    return clause == "REMOVE PARTITIONING" or "PARTITION BY" in clause[:40]


def _columns(before: Definition, after: Definition, kept: Mapping[str, str]) -> Iterator[str]:
    had, has = before.columns, after.columns
    olds = {new: old for old, new in kept.items()}
    for name in has:
        if name not in olds:
            yield f"DROP COLUMN {name}"
    moved = _moved([*had], [olds[name] for name in has if name in olds])
    previous = ""
    for name, text in had.items():
        place = f" AFTER {previous}" if previous else " FIRST"
        if name not in kept:
            yield f"ADD COLUMN {name} {text}{place}"
        elif name in moved:
            yield f"CHANGE COLUMN {kept[name]} {name} {text}{place}"
        elif kept[name] != name or has[kept[name]] != text:
            yield f"CHANGE COLUMN {kept[name]} {name} {text}"
        previous = name


def _moved(had: list[str], kept: list[str]) -> set[str]:
    """Columns that stand elsewhere now: all but a longest row of those that are still in their order."""
    there = [name for name in had if name in kept]
    if there == kept:
        return set()
    blocks = SequenceMatcher(None, there, kept, autojunk=False).get_matching_blocks()
    stayed = {name for block in blocks for name in there[block.a : block.a + block.size]}
    return {*there} - stayed


def _keys(before: Definition, after: Definition) -> Iterator[str]:
    """Those that go, and what is done in place; `_keys_back` has the rest."""
    back = {line: name for name, line in before.keys.items() if after.keys.get(name) != line}
    for name, line in after.keys.items():
        was = before.keys.get(name)
        if was == line:
            continue
        if (other := _same_but_name(before, name, line, back)) is not None:
            yield f"RENAME INDEX {name} TO {other}"
        elif was is not None and name and _VISIBLE.sub("", was) == _VISIBLE.sub("", line):
            yield _visibility(name, was, line)
        else:
            yield f"DROP KEY {name}" if name else "DROP PRIMARY KEY"


def _visibility(name: str, was: str, line: str) -> str:
    mark = (_VISIBLE.search(was) or _VISIBLE.search(line) or [""])[0]
    if "IGNORED" in mark:
        return f"ALTER INDEX {name} {'IGNORED' if _VISIBLE.search(was) else 'NOT IGNORED'}"
    return f"ALTER INDEX {name} {'INVISIBLE' if _VISIBLE.search(was) else 'VISIBLE'}"


def _same_but_name(before: Definition, name: str, line: str, back: Mapping[str, str]) -> str | None:
    if not name:
        return None
    for was, other in back.items():
        if other and other != name and was == line.replace(f"KEY {name} ", f"KEY {other} ", 1):
            return other if other not in before.keys or name not in before.keys else None
    return None


def _keys_back(before: Definition, after: Definition) -> Iterator[str]:
    back = {line: name for name, line in before.keys.items() if after.keys.get(name) != line}
    renamed = {
        other
        for name, line in after.keys.items()
        if before.keys.get(name) != line and (other := _same_but_name(before, name, line, back)) is not None
    }
    for name, line in before.keys.items():
        was = after.keys.get(name)
        if was == line or name in renamed:
            continue
        if was is not None and name and _VISIBLE.sub("", was) == _VISIBLE.sub("", line):
            continue
        yield f"ADD {line}"


def _constraints_gone(before: Definition, after: Definition) -> Iterator[str]:
    for name, line in after.constraints.items():
        if before.constraints.get(name) != line:
            yield f"DROP {'FOREIGN KEY' if ' FOREIGN KEY ' in line else 'CONSTRAINT'} {name}"


def _periods_gone(before: Definition, after: Definition) -> Iterator[str]:
    for line in after.others:
        if line not in before.others and (found := _PERIOD.match(line)):
            yield f"DROP {found[0]}"


def _periods_back(before: Definition, after: Definition) -> Iterator[str]:
    yield from (f"ADD {line}" for line in before.others if line not in after.others and _PERIOD.match(line))


def _constraints_back(before: Definition, after: Definition) -> Iterator[str]:
    for name, line in before.constraints.items():
        if after.constraints.get(name) != line:
            yield f"ADD {line}"


def _options(before: Definition, after: Definition) -> Iterator[str]:
    had, has = _read(before.options), _read(after.options)
    texts = ("DEFAULT CHARSET", "COLLATE")
    if any(had.get(name) != has.get(name) for name in texts):
        yield " ".join(f"{name}={had[name]}" for name in texts if name in had)
    for name, value in had.items():
        if name not in texts and has.get(name) != value:
            yield f"{name}={value}"
    for name in sorted(has.keys() - had.keys() - {*texts}):
        yield f"{name}={_UNSET.get(name, 'DEFAULT')}"


def _read(options: str) -> dict[str, str]:
    return dict(_OPTION.findall(options))
