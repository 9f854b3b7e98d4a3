"""The port where one process answers Prometheus, and the file by which Prometheus finds it.

Ports follow from `metrics.listen`; where one is taken, as by a second consumer, or 0 is given, any free one is. The
file is in the form of Prometheus's `file_sd_configs`
(https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from wsgiref.simple_server import WSGIServer

import structlog
from prometheus_client import start_http_server

from migrate import private
from migrate.metrics.registry import REGISTRY
from migrate.model import process_names
from migrate.model.errors import ServerError
from migrate.settings import Settings

log = structlog.get_logger("migrate.metrics")

_FIRST = (
    process_names.CONSUME,
    process_names.COMMIT,
    process_names.REQUEUE,
    process_names.CHECK,
    process_names.ALARMS,
)
"""Processes in the order of their ports; the publishers follow, in the order of `sources`."""


@contextmanager
def serving(settings: Settings, process: str) -> Iterator[None]:
    """Answer while the block runs, where `metrics.listen` says so. Raises ServerError, ConfigError."""
    where = settings.metrics.where
    if where is None:
        yield
        return
    host, base = where
    port = base and base + _offset(settings, process)
    try:
        server, _ = _started(host, port)
    except OSError as error:
        raise ServerError(f"metrics.listen {settings.metrics.listen}: {error}", hint="name another address") from error
    found = server.server_address[1]
    if port and found != port:
        log.warning("the port for metrics is taken, another one is used", taken=port, port=found)
    log.info("metrics", host=host, port=found)
    file: Path | None = None
    try:
        try:
            file = _noted(settings, process, host, found)
        except OSError as error:
            raise ServerError(f"metrics.directory: {error}", hint="name one that this user may write to") from error
        yield
    finally:
        if file is not None:
            file.unlink(missing_ok=True)
        server.shutdown()
        server.server_close()


def _started(host: str, port: int) -> tuple[WSGIServer, Thread]:
    try:
        return start_http_server(port, host, REGISTRY)
    except OSError:
        if not port:
            raise
        return start_http_server(0, host, REGISTRY)


def _offset(settings: Settings, process: str) -> int:
    names = [*_FIRST, *(process_names.publisher(source.name) for source in settings.sources)]
    return names.index(process)


def _noted(settings: Settings, process: str, host: str, port: int) -> Path:
    """The file, made; those of earlier processes of this name that are gone are removed."""
    named = settings.metrics.directory
    directory = named or private.directory(private.directory(settings.run_dir) / "metrics")
    stem = f"{settings.name}-{process.replace(':', '-')}"
    for earlier in directory.glob(f"{stem}-*.json"):
        number = earlier.stem.rpartition("-")[2]
        if number.isdigit() and not Path(f"/proc/{number}").exists():
            earlier.unlink(missing_ok=True)
    host = f"[{host}]" if ":" in host else host
    labels = {"migration": settings.name, "process": process}
    body = json.dumps([{"targets": [f"{host}:{port}"], "labels": labels}])
    path = directory / f"{stem}-{os.getpid()}.json"
    made = path.with_suffix(".new")
    private.write(made, body.encode())
    if named is not None:
        made.chmod(0o644)  # Prometheus is another user, and there is no secret in it
    made.replace(path)  # at once, as it may be read at any time
    return path
