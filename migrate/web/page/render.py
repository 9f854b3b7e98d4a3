"""Values to HTML: every value is escaped, as names, keys and reasons come from databases that others write to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from migrate.model.times import in_utc
from migrate.model.words import duration
from migrate.state.status_history import PastStatus
from migrate.status import blockers, ended_migration
from migrate.status.told_check import shown_check
from migrate.verify.certificate import typed, verdict
from migrate.web.page import plots
from migrate.web.page.actions import ACTIONS, ActionsSeen
from migrate.web.page.details import LISTED
from migrate.web.page.history import KnownMigration
from migrate.web.page.past_events import run_name
from migrate.web.page.plots import Plot, Span
from migrate.web.page.view import View

Parts = Mapping[str, Markup]
"""By the id of the element that holds each: what a page that is open takes in again where it changed."""
STATIC = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
_SECTIONS = ("summary", "blockers", "plots", "tables", "streams", "aside", "verification", "cutover", "events")
_OF_ENDED = ("summary", "plots", "verification", "cutover", "events")


@dataclass(frozen=True, slots=True)
class MigrationRow:
    """A line of the list. own: of the migration whose config this server has. None: it is not known."""

    name: str
    stage: str
    lag: float | None
    rate: float | None
    blockers: int | None
    verdict: str
    next: str
    at: datetime | None
    own: bool


@dataclass(frozen=True, slots=True)
class RowAsked:
    """What a person looks for."""

    table: str = ""
    key: str = ""
    source: str = ""


def _utc(when: datetime) -> str:
    return in_utc(when, "seconds")


def _digests_in_words(parts: Parts) -> str:
    return " ".join(f"{name}:{digest}" for name, digest in digests(parts).items())


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("migrate.web.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"utc": _utc, "duration": duration, "key": typed, "digests": _digests_in_words}
    made.globals |= {
        "checked": shown_check,
        "height": plots.HEIGHT,
        "left": plots.LEFT,
        "most": LISTED,
        "of_lost": blockers.of_lost,
        "run_name": run_name,
        "spans": tuple(Span),
        "verdict": verdict,
        "width": plots.WIDTH,
    }
    return made


_TEMPLATES = _environment()


def static(name: str) -> bytes:
    """One of STATIC."""
    return resources.files("migrate.web.page").joinpath("static", name).read_bytes()


def digests(parts: Parts) -> dict[str, str]:
    """Of each part, by which a page says what it has."""
    return {name: blake2b(html.encode(), digest_size=6).hexdigest() for name, html in parts.items()}


def parts_of(view: View) -> Parts:
    """Of the page of a migration."""
    names = _SECTIONS if view.details.ended is None else _OF_ENDED
    ended = "" if view.details.ended is None else ended_migration.told(view.details.ended)
    values = {"view": view, "plots": _plots(view.history, view.span), "ended": ended}
    return {name: _part(name, **values) for name in names}


def migration(name: str, view: View, *, acts: bool = False) -> str:
    """The page of the migration whose config this server has. acts: whoever reads it may also act."""
    values = {"name": name, "base": base(name), "span": view.span.label, "interval": view.interval, "acts": acts}
    return _page("migration", parts=parts_of(view), **values)


def parts_of_actions(done: ActionsSeen) -> Parts:
    return {"done": _part("done", done=done)}


def actions(name: str, parts: Parts, mark: str, refused: str) -> str:
    """mark: what the forms carry. refused: why the action that was asked for is not begun; "" where none was."""
    return _page("actions", name=name, base=base(name), parts=parts, mark=mark, refused=refused, actions=ACTIONS)


def parts_of_list(rows: Sequence[MigrationRow], own: str, problem: str) -> Parts:
    """problem: why the status of this server's own migration cannot be read; "" where it was."""
    return {"list": _part("list", rows=rows, own=own, problem=problem)}


def overview(parts: Parts, interval: float) -> str:
    return _page("overview", parts=parts, interval=interval)


def other(one: KnownMigration, own: str, history: Sequence[PastStatus], span: Span) -> str:
    """The page of a migration whose config this server does not have."""
    return _page("other", one=one, own=own, base=base(one.name), plots=_plots(history, span))


def missing(name: str) -> str:
    """In the place of the page of a migration that there is not."""
    return _page("missing", name=name)


def problem(told: str, at: datetime, interval: float) -> str:
    """In the place of a page whose status cannot be read."""
    return _page("problem", problem=told, at=at, interval=interval)


def row_search(
    name: str,
    asked: RowAsked,
    tables: Sequence[str],
    messages: int,
    *,
    lines: Sequence[str] = (),
    problem: str = "",
    hint: str = "",
) -> str:
    """lines: what is known about the row."""
    values = {"asked": asked, "tables": tables, "messages": messages, "lines": lines, "problem": problem, "hint": hint}
    return _page("explain", name=name, **values)


def base(name: str) -> str:
    """The path of a migration's page."""
    quote: Callable[[str], str] = _TEMPLATES.filters["urlencode"]
    return f"/m/{quote(name)}"


def _plots(history: Sequence[PastStatus], span: Span) -> dict[str, Plot]:
    return {"lag": plots.lag(history, span), "rate": plots.rate(history, span)}


def _part(template: str, **values: Any) -> Markup:
    return Markup(_TEMPLATES.get_template(f"parts/{template}.html").render(values))  # noqa: S704 - escaped by the template


def _page(template: str, /, **values: Any) -> str:
    return _TEMPLATES.get_template(f"{template}.html").render(values)
