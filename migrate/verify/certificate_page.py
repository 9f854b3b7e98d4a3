"""The certificate as one HTML file without scripts or links, for people who keep it. Every value in it is escaped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from migrate import private
from migrate.model.errors import ConfigError
from migrate.model.words import counted
from migrate.verify.certificate import typed, verdict, was_resumed

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1c1c; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; padding: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #d5d5d5; }
td, code, pre { overflow-wrap: anywhere; } td.number, th.number { text-align: right; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { white-space: pre-wrap; }
.verdict { padding: .7rem 1rem; border-left: .4rem solid; font-weight: 600; }
.clean { background: #e9f5ec; border-color: #24843f; } .unclean { background: #fbeaea; border-color: #b3261e; }
@media print { body { margin: 0; max-width: none; } details { display: none; } }
"""
_CODE = frozenset({"Key", "Before", "After"})
_NUMBERS = frozenset({"Rows at the source", "Rows at the target", "Chunks", "Places", "Differences", "Repaired"})


def html_page(certificate: Mapping[str, Any]) -> str:
    """The page of a certificate, also of one of an earlier version."""
    title = f"Verification {certificate['verification']} of migration {certificate['migration']}"
    compared = f"{counted(certificate['rows'], 'row')} of {counted(len(certificate['tables']), 'table')}"
    told, added = was_resumed(certificate), certificate.get("added", ())
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="verdict {"clean" if certificate["clean"] else "unclean"}">{escape(verdict(certificate))}</p>',
        f"<p>From {escape(certificate['started'])} to {escape(certificate['finished'])}: {escape(compared)}.</p>",
        *([f"<p>Resumed {escape(told)}.</p>"] if told else []),
        *([f"<p>Not compared, as they were added meanwhile: {escape(', '.join(added))}.</p>"] if added else []),
        "<h2>Where the sources stood</h2>",
        _table(
            ("Source", "Before", "After"),
            [(point["source"], point["before"], point["after"]) for point in certificate["sources"]],
        ),
        f"<h2>How it was compared</h2><p>{escape(certificate['method'])}</p>",
        "<h2>What was compared</h2>",
        _table(
            ("Table", "Rows at the source", "Rows at the target", "Chunks", "Places", "Differences", "Repaired"),
            [_figures(table) for table in certificate["tables"]],
        ),
        *(_of_table(table) for table in certificate["tables"]),
        "<h2>As data</h2><details><summary>JSON, as the state keeps it</summary>",
        f"<pre>{escape(json.dumps(certificate, indent=1))}</pre></details>",
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def check_file(file: Path) -> None:
    """Raise ConfigError when a page could not be written there: before an hour's work, not behind it."""
    if not os.access(file.parent, os.W_OK) or file.is_dir():
        raise ConfigError(f"--page: {file} cannot be written", hint="name a file in a directory that is there")


def write_page(certificate: Mapping[str, Any], file: Path) -> None:
    """Write the page, for its owner alone: it has keys of rows in it. Raises ConfigError."""
    try:
        private.write(file, html_page(certificate).encode())
    except OSError as error:
        raise ConfigError(f"--page: {file} cannot be written: {error.strerror}") from error


def _figures(table: Mapping[str, Any]) -> Sequence[object]:
    moving = f", {counted(table['in_motion'], 'key')} kept changing" if table["in_motion"] else ""
    rows, there = table["rows"], table["target_rows"]
    return (
        table["table"],
        rows,
        there,
        table["chunks"],
        table["places"],
        f"{table['differences']}{moving}",
        _mended(table),
    )


def _mended(table: Mapping[str, Any]) -> int:
    return int(table.get("repaired", 0))  # certificates of before have nothing of it


def _of_table(table: Mapping[str, Any]) -> str:
    nodes = table.get("nodes", 0)  # certificates of before have nothing of it
    found = [
        f"<h2>{escape(table['table'])}</h2>",
        *([f"<p>A broadcast table: each of {nodes} nodes has every row.</p>"] if nodes else []),
        f"<p>Source {escape(table['source'])}; key <code>{escape(', '.join(table['key']))}</code>;"
        f" columns <code>{escape(', '.join(table['columns']))}</code>.</p>",
    ]
    if told := table.get("unaccounted", ()):  # certificates of before have nothing of it
        found += ["<p>Not accounted for:</p>", *(f"<p>{escape(one)}</p>" for one in told)]
    lists = (("differ", table["named"], table["differences"]), ("repaired", table.get("mended", ()), _mended(table)))
    for what, named, count in lists:
        if count:
            rows = [(typed(item["key"]), item["kind"], item["detail"]) for item in named]
            caption = (
                f"Keys that {'differ' if what == 'differ' else 'differed and were repaired'}: {len(named)} of {count}"
            )
            found.append(_table(("Key", "Kind", "Where and what"), rows, caption))
    return "\n".join(found)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    def cell(kind: str, name: str, value: object) -> str:
        text = escape(str(value))
        css = ' class="number"' if name in _NUMBERS else ""
        return f"<{kind}{css}>{f'<code>{text}</code>' if name in _CODE and kind == 'td' else text}</{kind}>"

    lines = ["".join(cell("th", name, name) for name in head)]
    lines += ["".join(cell("td", name, value) for name, value in zip(head, row, strict=True)) for row in rows]
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{told}" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
