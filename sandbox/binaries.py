"""Which programs to run for each server, and a clear message when one is not installed."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.paths import axe, cache_dir, kafka_lib, mysql_root, shardingsphere_lib
from sandbox.releases import Release
from sandbox.settings import Flavour

# Debian keeps servers in sbin, which is not in every user's PATH.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class DatabasePrograms:
    """Command lines (without options of one server) of a flavour's programs."""

    server: tuple[str, ...]
    client: tuple[str, ...]
    install_db: tuple[str, ...] = ()  # MariaDB has a script of its own; MySQL's server does it
    made: Path | None = None  # a data directory that came with it; MySQL before 5.7 makes none


def which(name: str) -> str | None:
    """Path of a program, looked for in PATH and in the sbin directories."""
    return shutil.which(name, path=_PATH)


def promtool() -> str | None:
    """Path of Prometheus's checker, also of the one in the cache (sandbox/install/promtool.py)."""
    kept = cache_dir() / "promtool"
    return which("promtool") or (str(kept) if kept.exists() else None)


def browser() -> tuple[str, str]:
    """Paths of Chromium and of its driver. Raises SandboxError when one is not installed."""
    chromium, driver = which("chromium"), which("chromedriver")
    if chromium is None or driver is None:
        raise _missing("Chromium", "browser")
    return chromium, driver


def axe_script() -> str:
    """axe-core's text. Raises SandboxError when it was not fetched."""
    if not axe().exists():
        raise _missing("axe-core", "browser")
    return axe().read_text("utf-8")


def _missing(what: str, task: str = "servers") -> SandboxError:
    return SandboxError(f"{what} is not installed; run: make {task}")


@cache
def is_mysql(program: str) -> bool:
    """Whether a `mysqld` is MySQL's: MariaDB installs a link of that name too."""
    answer = subprocess.run([program, "--no-defaults", "--version"], capture_output=True, text=True, timeout=60)
    return answer.returncode == 0 and "mariadb" not in answer.stdout.lower()


def system_mysqld() -> str | None:
    """Path of the distribution's own MySQL server, if it has one."""
    found = which("mysqld")
    return found if found is not None and is_mysql(found) else None


def _mariadb() -> DatabasePrograms:
    server, client, install = which("mariadbd"), which("mariadb"), which("mariadb-install-db")
    if server is None or client is None or install is None:
        raise _missing("MariaDB")
    return DatabasePrograms((server,), (client,), (install, "--no-defaults"))


def unpacked_mysql(root: Path) -> DatabasePrograms:
    """Programs of the MySQL tree under `root`, run by the tree's own loader: no chroot, no root rights."""
    loader = (str(next((root / "lib").glob("ld-linux-*.so.*"))), "--library-path", str(root / "lib"))
    directories = (
        "--no-defaults",
        f"--basedir={root}",
        f"--lc-messages-dir={root / 'share/mysql'}",
        f"--plugin-dir={root / 'plugin'}",
    )
    return DatabasePrograms((*loader, str(root / "bin/mysqld"), *directories), (*loader, str(root / "bin/mysql")))


def _mysql() -> DatabasePrograms:
    own, client = system_mysqld(), which("mysql")
    if own is not None and client is not None:
        return DatabasePrograms((own, "--no-defaults"), (client,))
    if not (mysql_root() / "bin/mysqld").exists():
        raise _missing("MySQL")
    return unpacked_mysql(mysql_root())


def release_programs(of: Release) -> DatabasePrograms:
    """Programs of a further release, wherever its tree is."""
    root, programs = of.root, of.root / "bin"
    if of.flavour is Flavour.MYSQL:
        loader = next(str(one) for one in Path("/lib64").glob("ld-linux-*.so.*"))
        server = (loader, "--library-path", str(root / "lib"), str(programs / "mysqld"), "--no-defaults")
        return DatabasePrograms((*server, f"--basedir={root}"), _any_client(), made=root / "data")
    install = (str(programs / "mariadb-install-db"), "--no-defaults", f"--basedir={root}")
    return DatabasePrograms((str(programs / "mariadbd"),), (str(programs / "mariadb"),), install)


def _any_client() -> tuple[str, ...]:
    found = which("mariadb") or which("mysql")
    if found is None:
        raise _missing("MariaDB")
    return (found,)


def database_programs(flavour: Flavour, of: Release | None = None) -> DatabasePrograms:
    """Programs of a flavour, or of one of its further releases. Raises SandboxError when they are not installed."""
    if of is not None:
        if not of.installed:
            raise SandboxError(f"{of.name} is not installed; run: make servers SERVERS={of.name}")
        return release_programs(of)
    return _mariadb() if flavour is Flavour.MARIADB else _mysql()


def _find_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return (which(f"{home}/bin/java") if home else None) or which("java")


def java() -> str:
    """Path of `java`. Raises SandboxError when there is none."""
    found = _find_java()
    if found is None:
        raise _missing("Java")
    return found


def java_version() -> int:
    """Major version of Java (17); 0 when there is none."""
    program = _find_java()
    if program is None:
        return 0
    shown = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60)
    found = re.search(r'version "(\d+)', shown.stderr)
    return int(found.group(1)) if found else 0


def kafka_classpath() -> str:
    """Java class path of Kafka. Raises SandboxError when the jars were not fetched."""
    if not any(kafka_lib().glob("kafka_*.jar")):
        raise _missing("Kafka")
    return f"{kafka_lib()}/*"


def shardingsphere_classpath() -> str:
    """Java class path of ShardingSphere-JDBC and its driver. Raises SandboxError when the jars were not fetched."""
    if not any(shardingsphere_lib().glob("shardingsphere-jdbc-*.jar")):
        raise _missing("ShardingSphere-JDBC")
    return f"{shardingsphere_lib()}/*"
