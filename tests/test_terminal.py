"""Nothing that a terminal obeys comes from a server, from Kafka or from a key."""

from __future__ import annotations

import io
import json
import sys

import pytest
import structlog
from rich.live import Live
from rich.table import Table
from rich.text import Text

from migrate.cli import main
from migrate.cli.options import print_json
from migrate.model.errors import PreflightError
from migrate.processes import logs
from migrate.settings import Logging
from migrate.terminal import Printable, console, printable

OBEYED = "\x1b]0;owned\x07\x9b2J\r\u202e\u061c\u200d\ud800\U000e0041"
SHOWN = r"\u001b]0;owned\u0007\u009b2J\r\u202e\u061c\u200d\ud800\udb40\udc41"


def test_text_keeps_its_lines_tabs_and_letters() -> None:
    assert printable("a\tb\nç日本😀 \xa0") == "a\tb\nç日本😀 \xa0"
    assert printable(OBEYED) == SHOWN


def test_what_is_printed_is_printable_and_coloured_all_the_same() -> None:
    """Lost: what a terminal showed, to a key or a name that held its escape sequences."""
    out = io.StringIO()
    made = console(file=out, highlight=False, force_terminal=True, color_system="standard", width=200)
    table = Table()
    table.add_column("name")
    table.add_row(OBEYED)
    made.print(f"[red]{OBEYED}[/red]", table)
    assert out.getvalue().count(r"\u001b]0;owned") == 2
    assert out.getvalue().count("\x1b[31m") == 1
    assert "\x1b]" not in out.getvalue()
    with Live(console=made, auto_refresh=False) as live:
        live.update(Printable(Text(OBEYED)), refresh=True)
    assert "\x1b]" not in out.getvalue()
    assert "\x9b" not in out.getvalue()


def test_json_is_printable_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Lost: the terminal of who prints a key, to what is written in it."""
    print_json({"key": OBEYED})
    said = capsys.readouterr().out
    assert printable(said) == said
    assert json.loads(said) == {"key": OBEYED}


def test_an_error_is_printable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Lost: the terminal, to a name in an error."""

    def refuse(*_arguments: object, **_more: object) -> None:
        raise PreflightError(OBEYED, hint=OBEYED)

    monkeypatch.setattr(main, "build", lambda *_: refuse)
    with pytest.raises(SystemExit):
        main.main([])
    assert capsys.readouterr().err.count(SHOWN) == 2


def test_a_log_line_is_printable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: the terminal of who reads a log, to a name in it."""
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    logs.configure(Logging(), "")
    structlog.get_logger("migrate").error(OBEYED, reason=OBEYED)
    assert err.getvalue().count(r"\u001b]0;owned") == 2
    assert "\x1b" not in err.getvalue()
