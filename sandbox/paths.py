"""Where the sandbox keeps things: downloads in the cache, server data in the run directory."""

import os
from pathlib import Path

from sandbox.settings import AXE_VERSION, KAFKA_VERSION, SHARDINGSPHERE_VERSION

PROJECT = Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """Downloads: SANDBOX_CACHE, or `.sandbox/cache` in the project, which `make distclean` removes."""
    given = os.environ.get("SANDBOX_CACHE")
    return Path(given or PROJECT / ".sandbox" / "cache").resolve()


def run_dir() -> Path:
    """Directory of server data: `.sandbox/run` in the project. `make clean` removes it."""
    return PROJECT / ".sandbox" / "run"


def mysql_root() -> Path:
    """Directory tree that holds the unpacked MySQL server (see sandbox/install/mysql.py)."""
    return cache_dir() / "mysql"


def kafka_lib() -> Path:
    """Directory of Kafka's jar files (see sandbox/install/kafka.py)."""
    return cache_dir() / f"kafka-{KAFKA_VERSION}" / "lib"


def kafka_classes() -> Path:
    """Kafka's classes as the JVM maps them into memory (see sandbox/install/kafka_classes.py)."""
    return kafka_lib().with_name("classes.jsa")


def axe() -> Path:
    """The script that checks whether everybody can use a page (see sandbox/install/browser.py)."""
    return cache_dir() / f"axe-core-{AXE_VERSION}.js"


def shardingsphere_lib() -> Path:
    """Directory of the jar files of ShardingSphere-JDBC (see sandbox/install/shardingsphere.py)."""
    return cache_dir() / f"shardingsphere-{SHARDINGSPHERE_VERSION}" / "lib"
