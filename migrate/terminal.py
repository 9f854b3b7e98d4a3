"""What reaches a terminal: names, keys and messages come from servers and from Kafka, and a terminal obeys some of
their characters."""

from __future__ import annotations

import json
import re
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""Control characters but for tab and line feed, marks of direction, what has no width, and halves of characters."""


def printable(text: str) -> str:
    r"""With `\uNNNN` or `\r`, as JSON has it, for what a terminal would obey or not show."""
    return _OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], text)


class Printable:
    """Renderables whose text is printable; what rich adds for colours and places stays."""

    def __init__(self, *renderables: RenderableType) -> None:
        self._renderables = renderables

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for one in self._renderables:
            for text, style, control in console.render(one, options):
                yield Segment(text if control else printable(text), style, control)


class _Hook(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [Printable(*renderables)]


def console(**options: Any) -> Console:
    """A Console that prints printable text alone; as rich has it. Of a Live only what is wrapped in `Printable`."""
    made = Console(**options)
    made.push_render_hook(_Hook())
    return made
