"""All that is known about one row, in lines."""

from __future__ import annotations

from migrate.commands.explain import Explained


def lines_of(found: Explained) -> list[str]:
    where = f"topic {found.topic} [{found.partition}], consumed to {found.consumed_to} of {found.topic_end}"
    there = "it has no such row" if found.at_source == "absent" else f"belongs to {found.at_source}"
    lines = [f"{found.table} key {found.key}, {where}", f"source {found.source}: {there}"]
    lines += [f"node {one['node']}: {one['row']}" for one in found.nodes]
    lines += [f"target {one['place']}: {one['row']}" for one in found.places] or ["target: no place has it"]
    if found.halted:
        lines.append(f"STOPPED its partition: {found.halted}")
    for one in found.messages:
        at = f" at {one['coordinate']}" if one["coordinate"] else ""
        of = f" of {one['table']}" if "table" in one else ""
        words = [f"message {one['topic']} @ {one['offset']}: {one['type']}{of}{at}", one["gtid"]]
        words.append(f"record {one['record']}" if "record" in one else "")
        lines.append(", ".join(word for word in words if word))
    if not found.messages:
        first = ", ".join(f"{topic} @ {offset}" for topic, offset in found.read_from.items())
        lines.append(f"message: none from {first}")
    for one in found.decisions:
        at = f" at {one['coordinate']}" if one["coordinate"] else ""
        lines.append(f"decided {one['place']}: {one['what']}{at}, {one['made']} by its server's clock")
    for one in found.ledger:
        was = "its row was there" if one["row_was_there"] else "no row was there, it comes back later"
        lines.append(f"ledger {one['place']}: deleted at {one['coordinate']}, {was}")
    lines += [
        f"outdated {one['place']}: the change at {one['coordinate']} was skipped at {one['skipped']}, as the row is"
        " newer by its update time; it is refreshed once the table is copied and caught up"
        for one in found.outdated
    ]
    lines += [
        f"PARKED {one['place']}: at {one['coordinate']}: {one['refusal']}; set aside: {one['reason']}"
        for one in found.parked
    ]
    if found.set_aside:
        lines.append(f"SKIPS what is refused of it: {found.set_aside}")
    lines += [
        f"verification {one['verification']} of {one['started']}: {one['kind']} {one['detail']}".rstrip()
        for one in found.differences
    ]
    return lines
