"""What is missing for the servers asked for, and installing just that."""

import fcntl
from collections.abc import Iterable

from sandbox import faketime, unsynced
from sandbox.binaries import java_version, which
from sandbox.galera import LIBRARY
from sandbox.install import browser, kafka_classes, mysql, promtool, releases
from sandbox.install.jars import Jars
from sandbox.install.kafka import KAFKA
from sandbox.install.shardingsphere import SHARDINGSPHERE
from sandbox.install.system import apt_install, say
from sandbox.paths import cache_dir
from sandbox.releases import Release
from sandbox.settings import Flavour

_OLDEST_JAVA = 17  # Spark 4 and Kafka 4 need it


def missing_packages(flavours: Iterable[Flavour]) -> list[list[str]]:
    """Debian packages to install, each with its alternatives; none has a service that would be started."""
    wanted = set(flavours)
    packages: list[list[str]] = []
    if Flavour.MARIADB in wanted:
        if which("mariadbd") is None or which("mariadb-install-db") is None:
            packages.append(["mariadb-server-core"])
        if which("mariadb") is None:
            packages.append(["mariadb-client-core"])
    if Flavour.MYSQL in wanted and not mysql.is_installed() and which("debootstrap") is None:
        packages.append(["debootstrap"])
    if java_version() < _OLDEST_JAVA:
        packages.append(["openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless"])
    if not all(one.is_installed() for one in jars(wanted)) and which("mvn") is None:
        packages.append(["maven"])
    if wanted == set(Flavour):  # the tests, which need both; the demo has one
        if faketime.library() is None:
            packages.append(["libfaketime"])
        if not LIBRARY.exists():
            packages.append(["galera-4"])
        if unsynced.library() is None:
            packages.append(["libeatmydata1"])
        if which("cc") is None:
            packages += [["gcc"], ["libc6-dev"]]
        if which("spin") is None:  # checks the models in docs/model
            packages.append(["spin"])
    return packages


def jars(wanted: set[Flavour]) -> list[Jars]:
    """What Maven fetches for these flavours."""
    return [KAFKA, SHARDINGSPHERE] if wanted == set(Flavour) else [KAFKA]


def install_releases(wanted: Iterable[Release]) -> None:
    """Fetch those of the further releases that are missing. Raises SandboxError."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "install.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for one in wanted:
            if not one.installed:
                apt_install([[name] for name in releases.needs(one)])
                releases.install(one)


def install_browser() -> None:
    """Chromium, its driver and axe-core, where missing. Raises SandboxError."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "install.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        browser.install()


def install(flavours: Iterable[Flavour]) -> None:
    """Install what is missing for the flavours, for Kafka and for Spark, and say what and how big first.

    Root rights are taken (sudo) only for Debian packages and for debootstrap. Quick when nothing is missing.
    Raises SandboxError with the failing installer's last lines.
    """
    wanted = list(flavours)
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "install.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two installations at once would tread on each other
        apt_install(missing_packages(wanted))
        for one in jars(set(wanted)):
            if not one.is_installed():
                one.install()
        if Flavour.MYSQL in wanted and not mysql.is_installed():
            mysql.install()
        kafka_classes.install()
        if set(wanted) == set(Flavour):  # the tests
            promtool.install()
    say(f"installed: {', '.join(wanted)}, kafka, java (cache: {cache_dir()})")
