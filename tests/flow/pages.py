"""The documents' pages that answer an operator's question, and somebody who types what they tell to type."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.process import Child
from tests.failover.support import SLOW, Flow, wait

DOCS = Path(__file__).resolve().parents[2] / "docs"
ELSEWHERE = (
    "migrate rollback --without t1",
    "migrate rollback --without TARGET",
    "migrate cutover --without SOURCE",
    "migrate finish --without SOURCE",
    "migrate finish --abandon --without t1",
    "migrate finish --abandon --yes",
    "migrate parked drop shop.orders",
    "migrate parked drop shop.orders 7",
    "migrate --reverse verify --repair",
    "migrate new",
)
"""What other tests type: `test_new` to begin, `test_cutover_gone` where a server is gone for good, `test_grants` to
give a migration up, `test_follower_holds` where the stream that only follows went on without something."""
DEMOS = ("make demo-reshard", "make demo-reshard SOURCES=2 FLAVOUR=mysql")
"""Blocks of pages have these too: `test_reshard` runs what they start, on two sources."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
_INLINE = re.compile(r"`([^`\n]+)`")


def told(page: str) -> tuple[list[str], list[str]]:
    """The commands that a page has in its blocks, and those that its sentences name."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    lines = [
        re.split(r"\s+#", line)[0]
        for kind, block in _FENCE.findall(text)
        if kind == "sh"
        for line in block.splitlines()
    ]
    named = [code for code in _INLINE.findall(_FENCE.sub("", text)) if code.startswith("migrate ")]
    return lines, named


class Hand:
    """Types commands in the directory of a migration's config, as they stand there but for `words` in them."""

    def __init__(self, flow: Flow, words: Mapping[str, str]) -> None:
        self.flow = flow
        self.typed: list[str] = []
        self.by_shell = True  # else commands are forked, which saves their start and Spark's
        self._words = words
        self._kept: list[Child] = []
        bin_directory = Path(sys.executable).parent
        self._environment = {**flow.migration.environment, "PATH": f"{bin_directory}:{os.environ['PATH']}"}

    def types(self, line: str, code: int = 0) -> str:
        """A command to its end; what it said."""
        meant = self._meant(line)
        if not self.by_shell:
            forked = self.flow.migration.run(*shlex.split(meant)[1:], timeout=300)
            assert forked.returncode == code, f"{line} ended with {forked.returncode}: {forked.stdout[-3000:]}"
            return forked.stdout + forked.stderr
        done = subprocess.run(
            ["sh", "-c", meant],
            cwd=self.flow.migration.directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, f"{line} ended with {done.returncode}: {done.stdout[-3000:]}"
        return done.stdout

    def keeps(self, line: str, says: str = "", *, terminal: bool = False) -> Child:
        """A command that keeps running, once it said so."""
        child = Child(line, self.flow.directory / f"kept-{len(self._kept)}.log", self.flow.migration.directory)
        shell = (
            ["script", "-qfec", self._meant(line), "/dev/null"]
            if terminal
            else ["sh", "-c", f"exec {self._meant(line)}"]
        )
        child.start(shell, self._environment)
        self._kept.append(child)
        wait(lambda: says in child.log.read_text("utf-8"), f"{line} to say {says!r}")
        return child

    def ends(self, child: Child) -> None:
        """With Ctrl-C's gentler brother, cleanly."""
        child.stop(SLOW)
        assert child.returncode == 0, child.log.read_text("utf-8")[-3000:]

    def untyped(self, page: str) -> list[str]:
        """What a page tells to type and was not; a command that a sentence names may have had more words."""
        lines, named = told(page)
        assert lines or named
        return [line for line in lines if line not in self.typed and line not in DEMOS] + [
            code
            for code in named
            if code not in ELSEWHERE and not any(f"{line} ".startswith(f"{code} ") for line in self.typed)
        ]

    def close(self) -> None:
        for child in self._kept:
            child.kill()

    def _meant(self, line: str) -> str:
        self.typed.append(line)
        for word, meant in self._words.items():
            line = line.replace(word, meant)
        return line
