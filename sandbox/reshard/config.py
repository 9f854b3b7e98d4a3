"""The config file of the re-sharding demo: N databases × N tables of N sources become 2N × 2N at two targets."""

from __future__ import annotations

from pathlib import Path

from sandbox import snippet
from sandbox.demo.config import TIMES
from sandbox.stack import Sandbox

NAME = "reshard"


def text(box: Sandbox, directory: Path) -> str:
    """The YAML; passwords are left to the environment (`snippet.environment`)."""
    old = len(box.sources)
    targets = [f"  ds_{n}: {{target: target{1 + n // old}, database: shop_{n}}}\n" for n in range(2 * old)]
    names = [name for name, _ in snippet.sources(box)]
    sources = [f"  src_{n}: {{source: {name}, database: old_{n}}}\n" for n, name in enumerate(names)]
    tables = [_table(n, name, old) for n, name in enumerate(names)]
    return "".join(
        [
            f"name: {NAME}\n",
            snippet.config(box),
            "databases:\n",
            *targets,
            "source_databases:\n",
            *sources,
            TIMES,
            "lease: {seconds: 15}\n",  # many processes share the machine, and none is killed
            f"run_dir: {directory}\n",
            "tables:\n",
            *tables,
        ]
    )


def _table(number: int, source: str, old: int) -> str:
    """The tables of one source; the rules are the same for each."""
    return (
        f'  - name: "old_{number}.orders_*"\n    source: {source}\n    group: orders\n'
        f"    sharding:\n{_rule('ds', 2 * old)}    home:\n{_rule('src', old)}"
    )


def _rule(databases: str, count: int) -> str:
    mod = f"algorithm: MOD, props: {{sharding-count: {count}}}"
    return (
        f'      nodes: "{databases}_${{0..{count - 1}}}.orders_${{0..{count - 1}}}"\n'
        f"      database: {{column: user_id, {mod}}}\n"
        f"      table: {{column: id, {mod}}}\n"
    )
