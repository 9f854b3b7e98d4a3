"""Kafka's classes in the form that the JVM maps into memory: a broker starts in half the processor time.

The JVM takes such an archive only with the very Java and jars that wrote it, and starts as ever without (java(1),
"-XX:SharedArchiveFile").
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, Producer

from sandbox.binaries import java
from sandbox.broker import KafkaBroker
from sandbox.errors import SandboxError
from sandbox.install.system import say
from sandbox.paths import kafka_classes

_TOPIC = "classes"


def install() -> None:
    """Write the archive, where there is none of this Java; without it, brokers start as ever, and this says so."""
    told = kafka_classes().with_suffix(".java")
    try:
        made_by = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
        if kafka_classes().exists() and told.exists() and told.read_text("utf-8") == made_by:
            return
        say("archiving Kafka's classes, for shorter starts: 50 MB")
        _make(kafka_classes())
        told.write_text(made_by, "utf-8")
    except (OSError, subprocess.SubprocessError, SandboxError) as error:
        say(f"without Kafka's classes: {error}")


def _make(path: Path) -> None:
    """Have a broker do what brokers do once, and its JVM keep what it loaded. Raises OSError, SandboxError."""
    with TemporaryDirectory(dir=path.parent) as directory:
        written = Path(directory, path.name)
        broker = KafkaBroker(
            Path(directory, "broker"),
            properties={"auto.create.topics.enable": "true"},
            jvm=[f"-XX:ArchiveClassesAtExit={written}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"],
        )
        broker.start()
        try:
            _used(broker.bootstrap)
        finally:
            broker.stop(120.0)
        os.replace(written, path)


def _used(bootstrap: str) -> None:
    """One message there and back. Raises SandboxError when it does not come."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(_TOPIC, b"one")
    producer.flush(60.0)
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": _TOPIC, "auto.offset.reset": "earliest"})
    try:
        reader.subscribe([_TOPIC])
        if reader.poll(60.0) is None:
            raise SandboxError("the broker gave no message back within 60 s")
    finally:
        reader.close()
