"""`migrate status` for a terminal, on one screen: what a person has to know first, the next command last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from migrate.model.words import counted
from migrate.status import blockers, told
from migrate.status.snapshot import PartitionStatus, Snapshot, SourceStatus
from migrate.status.stage import StageStatus
from migrate.status.table_state import TableState
from migrate.status.told_check import shown_check
from migrate.status.told_copy import told_copy

MOST = 16
"""Tables and partitions that are shown one by one: of more, those that are not at rest."""
Meant = Callable[[str], str]
"""Gives a hint the commands of the stream that is shown."""


class Style(StrEnum):
    """As rich names them; colours are left out where there is no terminal."""

    PLAIN = ""
    WRONG = "bold red"  # a person is needed
    HOLDS = "yellow"
    STAGE = "bold"
    NEXT = "bold green"


Lines = Iterator[tuple[str, Style]]


def page(now: Snapshot, stands: StageStatus | None, meant: Meant) -> RenderableType:
    """Everything that fits. stands: None for a reverse stream."""
    found: list[RenderableType] = []

    def say(lines: Lines) -> None:
        found.extend(Text(line, style) for line, style in lines)

    if stands is not None:
        say(_stage(stands))
    found.append(Text(f"migration {now.migration}, topic {', '.join(now.topics)}, lag {now.lag_seconds:.1f} s"))
    for source in now.sources:
        say(_source(source))
    say(_servers(now))
    found += _partitions(now.partitions)
    say(_stream(now))
    say(_needs_a_person(now, meant))
    say(_tables(now))
    say(_oversized(now))
    found += [Text(line) for line in shown_check(now.check)]
    say(_processes(now, meant))
    if stands is not None and stands.next is not None:
        found.append(Text(f"next: `{stands.next}`", Style.NEXT))
    return Group(*found)


def _stage(stands: StageStatus) -> Lines:
    yield f"stage: {stands.stage}", Style.STAGE
    for one in stands.held:
        yield f"  held back: {told.told(one)}", Style.HOLDS


def _source(source: SourceStatus) -> Lines:
    behind = "caught up" if source.caught_up else "behind" if source.log_end else source.problem
    published = source.published or "nothing yet"
    unknown = Style.PLAIN if source.log_end else Style.WRONG
    yield f"source {source.name}: published {published}, log at {source.log_end or '?'}: {behind}", unknown
    if source.outstanding.get("batches"):
        count, ids = source.outstanding["batches"], [str(batch[0]) for batch in source.outstanding["first"]]
        listed = f"number {ids[0]}" if count == 1 else f"the first are {', '.join(ids)}"
        yield (
            f"source {source.name}: {counted(count, 'batch', 'batches')},"
            f" {counted(source.outstanding['rows'], 'row')}, not confirmed by Kafka at the last flush; {listed}",
            Style.PLAIN,
        )
    if source.replaying:
        until = f"rows may go back until {source.replaying} is published again"
        yield f"source {source.name}: replays; {until}", Style.HOLDS
    if source.doubt:
        way = "`migrate drain`, then `migrate verify`, all tables, in the direction that leads"
        yield f"IN DOUBT {source.name}: {source.doubt}\n        → {way}", Style.WRONG


def _servers(now: Snapshot) -> Lines:
    if now.plain:
        yield f"not encrypted: {', '.join(now.plain)}", Style.HOLDS
    for problem in now.unanswered:
        yield f"NO ANSWER: {problem}", Style.WRONG


def _partitions(partitions: Sequence[PartitionStatus]) -> list[RenderableType]:
    """A row each; of more than fit, those that nobody works on, or that have messages waiting."""
    every = len(partitions)
    chosen = [one for one in partitions if not one.owner or one.waiting] if every > MOST else partitions
    found: list[RenderableType] = []
    if every > MOST:
        waiting, rows = sum(one.waiting for one in partitions), sum(one.rows for one in partitions)
        alone = sum(not one.owner for one in partitions)
        told_ = f"partitions: {every}, {alone} without a consumer; {counted(waiting, 'message')} waiting"
        found.append(Text(f"{told_}, {rows:,} rows applied"))
    if chosen:
        table = Table("topic", "partition", "consumed to", "topic end", "waiting", "rows applied", "consumer")
        for one in chosen[:MOST]:
            cells = (one.topic, one.partition, one.consumed, one.end, one.waiting, one.rows, one.owner or "none")
            table.add_row(*(str(cell) for cell in cells))
        found.append(table)
    if len(chosen) > MOST:
        found.append(Text(_more(len(chosen) - MOST, "partition")))
    return found


def _stream(now: Snapshot) -> Lines:
    if now.leading:
        yield "running: " + ", ".join(f"{name} ({who})" for name, who in now.leading.items()), Style.PLAIN
    yield "records: " + ", ".join(f"{count} {name}" for name, count in now.records.items()), Style.PLAIN
    yield (
        f"empty deletes waiting: {now.empty_deletes}" + (" (reachable targets only)" if now.unanswered else ""),
        Style.PLAIN,
    )
    if now.forgotten:
        since = f"since {now.forgotten['since']} because {now.forgotten['because']}"
        yield f"compared: nothing, {since}", Style.HOLDS
    if now.outdated:
        kept = counted(now.outdated, "key")
        yield f"update_time: {kept} skipped, refreshed once the table is copied and caught up", Style.PLAIN
    if now.waiting_markers:
        markers = counted(now.waiting_markers, "marker")
        yield f"foreign keys: {markers} until the copy of the table is closed", Style.PLAIN


def _needs_a_person(now: Snapshot, meant: Meant) -> Lines:
    listed = "`migrate parked list` names them"
    for lost in now.lost:
        yield meant(f"LOST: {lost}; `{blockers.of_lost(lost)}`"), Style.WRONG
    if now.foreign:
        yield f"FOREIGN: {told.foreign(now.foreign)}", Style.WRONG
    if now.parked:
        yield meant(f"PARKED: {now.parked} changes that the target refuses; {listed}"), Style.WRONG
    if now.skips:
        yield meant(f"SKIPS what is refused of {counted(now.skips, 'key')}; {listed}"), Style.HOLDS
    if now.left_out:
        since = f", {now.left_out_since} of them since the last clean verification of all tables began"
        count = f"LEFT OUT: {counted(now.left_out, 'message')}{since if now.left_out_since < now.left_out else ''}"
        yield meant(f"{count}; {listed}"), Style.WRONG
    for topic in sorted(now.gone):
        yield f"GONE topic {topic}: the broker does not have it", Style.WRONG


def _tables(now: Snapshot) -> Lines:
    """A line each; of more than fit a count, and those that are not copied."""
    every = now.tables
    chosen: Mapping[str, TableState] = every
    if len(every) > MOST:
        states = Counter(state.value for state in every.values())
        yield f"tables: {len(every)}, " + ", ".join(f"{n} {state}" for state, n in states.most_common()), Style.PLAIN
        chosen = {name: state for name, state in every.items() if state is not TableState.COPIED}
    for name, state in [*chosen.items()][:MOST]:
        yield f"table {name}: {state}{told_copy(now.copies.get(name), state)}", Style.PLAIN
    if len(chosen) > MOST:
        yield _more(len(chosen) - MOST, "table"), Style.PLAIN


def _more(count: int, what: str) -> str:
    return f"  and {counted(count, what)} more; `migrate status --json` has all"


def _oversized(now: Snapshot) -> Lines:
    for row in now.oversized:
        if row["verified"]:
            outcome = "a verification of all tables that began later was clean"
        else:
            outcome = "the target may lack the row, or have an older one (see `migrate verify`)"
        yield (
            f"LEFT OUT {row['operation']} of {row['database']}.{row['table']} key {row['key']} at"
            f" {tuple(row['coordinate'])}: its message has {row['size']} bytes; {outcome}",
            Style.PLAIN if row["verified"] else Style.WRONG,
        )


def _processes(now: Snapshot, meant: Meant) -> Lines:
    """Those that stopped or ended."""
    for halted in now.halted:
        yield _stopped(halted, meant), Style.WRONG
    for ended in now.ended:
        again = f"`migrate run` starts it again: {ended['reason']}"
        yield f"ENDED {ended['process']} at {ended['at']}, {again}", Style.HOLDS
        yield f"        → {meant(ended['hint']) or 'its log, below run_dir, says more'}", Style.PLAIN


def _stopped(halted: Mapping[str, Any], meant: Meant) -> str:
    since = "" if halted["since"] == halted["at"] else f", last tried at {halted['at']}"
    return (
        f"STOPPED {halted['process']} since {halted['since']}{since}: {halted['reason']}"
        f"\n        → {meant(halted['hint'])}"
    )
