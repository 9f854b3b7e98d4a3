"""Programs in Java, fetched by Maven into the cache with all that they need."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.binaries import which
from sandbox.errors import SandboxError
from sandbox.install.system import run, say

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@dataclass(frozen=True)
class Jars:
    """`lib` gives the directory for the jar files of a Maven project; `size` is said before they are fetched."""

    name: str
    lib: Callable[[], Path]
    pom: str
    size: str

    def is_installed(self) -> bool:
        """Whether the jars are there, and are those we would fetch now."""
        fetched = self.lib().with_name("pom.xml")
        return self.lib().exists() and fetched.exists() and fetched.read_text() == self.pom

    def install(self) -> None:
        """Fetch the jars into the cache, with their checksums compared. Raises SandboxError on failure."""
        target = self.lib()
        part = target.with_name("lib.part")
        _clear(part)
        _clear(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        say(f"fetching {self.name} with Maven into {target}: {self.size}")
        described = target.with_name("pom.xml")
        described.write_text(self.pom)
        maven = which("mvn")
        if maven is None:
            raise SandboxError("Maven is not installed")
        command = [maven, "-B", "-q", "--strict-checksums", "-f", str(described), _COPY]
        where = [f"-DoutputDirectory={part}", "-DincludeScope=runtime"]
        run([*command, *where], 900, f"fetching {self.name} with Maven")
        part.rename(target)


def _clear(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
