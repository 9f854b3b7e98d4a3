"""The whole stack: a source, some targets, and Kafka."""

import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer, Option
from sandbox.errors import SandboxError
from sandbox.paths import run_dir
from sandbox.settings import Flavour
from sandbox.workdir import owned

_numbers = itertools.count(1)


class Sandbox:
    """A context manager with a source, `targets` target servers and, if wanted, Kafka, all started at once.

    `sources`: how many there are, where it is not one; `source` is the first of them.
    `root`: directory of all data; without one a new directory in `.sandbox/run`.
    `keep`: leave the data when it ends (default: only a given `root` is kept).
    `options`: server variables for every database server, on top of sandbox.settings.
    """

    _more_sources: Sequence[DatabaseServer] = ()

    def __init__(
        self,
        flavour: Flavour | str,
        root: Path | None = None,
        *,
        sources: int = 1,
        targets: int = 2,
        kafka: bool = True,
        keep: bool | None = None,
        options: Mapping[str, Option] | None = None,
    ) -> None:
        self.flavour = Flavour(flavour)
        self.root = (root or run_dir() / f"{self.flavour}-{os.getpid()}-{next(_numbers)}").resolve()
        self._keep = root is not None if keep is None else keep
        self._directory = contextlib.ExitStack()
        self.source = DatabaseServer(self.flavour, self.root / "source", server_id=1, options=options)
        self.targets = [
            DatabaseServer(self.flavour, self.root / f"target{n}", server_id=1 + n, options=options)
            for n in range(1, targets + 1)
        ]
        self._more_sources = [
            DatabaseServer(self.flavour, self.root / f"source{n}", server_id=targets + n, options=options)
            for n in range(2, sources + 1)
        ]
        self._kafka = KafkaBroker(self.root / "kafka") if kafka else None

    @property
    def kafka(self) -> KafkaBroker:
        """The broker. Raises SandboxError when this sandbox was made without one."""
        if self._kafka is None:
            raise SandboxError("this sandbox has no Kafka broker (kafka=False)")
        return self._kafka

    @property
    def has_kafka(self) -> bool:
        return self._kafka is not None

    @property
    def sources(self) -> list[DatabaseServer]:
        return [self.source, *self._more_sources]

    @property
    def databases(self) -> list[DatabaseServer]:
        """The sources and the targets."""
        return [*self.sources, *self.targets]

    @property
    def servers(self) -> list[DatabaseServer | KafkaBroker]:
        """All servers."""
        return [*self.databases, *([self._kafka] if self._kafka else [])]

    def start(self) -> None:
        """Start all servers. When one does not come up, stops the others and raises its SandboxError."""
        self._directory.enter_context(owned(self.root, keep=self._keep))
        try:
            with ThreadPoolExecutor(len(self.servers)) as pool:
                for outcome in [pool.submit(server.start) for server in self.servers]:
                    outcome.result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop all servers, and remove the data unless it is kept."""
        with ThreadPoolExecutor(len(self.servers)) as pool:
            # What is thrown away afterwards need not be shut down with care.
            ends = [pool.submit(server.stop if self._keep else server.kill) for server in self.servers]
        for end in ends:
            end.result()
        self._directory.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
