"""What the scheduled check found, in lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migrate.model.change import key_json
from migrate.model.words import counted


def shown_check(now: Mapping[str, Any]) -> list[str]:
    """What the scheduled check found, in lines."""
    last = now["last"]
    if last is None:
        return []
    told = f"check: {counted(last['chunks'], 'chunk')} with {counted(last['rows'], 'row')} at {last['finished']}"
    told += f"; {now['never_checked']} of {now['chunks']} never compared" if now["never_checked"] else ""
    told += f"; {counted(last['in_motion'], 'key')} not judged" if last["in_motion"] else ""
    told += f"; {counted(last['repaired'], 'key')} repaired" if last["repaired"] else ""
    lines = [told + f"; {counted(now['differences'], 'difference')}"]
    for one in now["named"][:10]:
        told = f"DIFFERS {one['table']} key {key_json(one['key'])}: {one['kind']}: {one['detail']}"
        lines.append(f"{told}, since {one['first_seen']}")
    if (more := now["differences"] - 10) > 0:
        lines.append(f"        and {more} more")
    return lines
