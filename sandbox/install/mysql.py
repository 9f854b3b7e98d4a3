"""A real MySQL server on a Debian that has none: unpacked from Debian's unstable suite into the cache."""

import shutil
import subprocess
from pathlib import Path

from sandbox.binaries import system_mysqld, unpacked_mysql, which
from sandbox.errors import SandboxError
from sandbox.install.system import as_root, debian_mirror, run, say
from sandbox.paths import mysql_root

_SUITE = "sid"
_PACKAGES = "mysql-server-core,mysql-client-core"


def is_installed() -> bool:
    """Whether there is a MySQL server and client: the distribution's, or ours in the cache."""
    of_the_system = system_mysqld() is not None and which("mysql") is not None
    return of_the_system or (mysql_root() / "bin/mysqld").exists()


def install() -> None:
    """Unpack MySQL into the cache; needs root rights for debootstrap only. Raises SandboxError on failure.

    A whole minimal system is made first, because that resolves the server's libraries; then only what the
    server needs is kept. It runs by its own loader and libraries, without a chroot and without root rights.
    """
    target = mysql_root()
    system, part = target.with_name("mysql-system.part"), target.with_name("mysql.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove(system)
    _remove(part)
    say(
        f"making MySQL in {target} with debootstrap from Debian {_SUITE}: about 85 MB to fetch, "
        "650 MB on the way, 260 MB in the end, half a minute to two minutes"
    )
    try:
        _debootstrap(system)
        _keep_server(system, part)
        part.rename(target)
    finally:
        _remove(system)


def _debootstrap(system: Path) -> None:
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(system)]
    mirror = debian_mirror()
    if mirror is not None:
        try:
            run(as_root([*command, mirror]), 900, "debootstrap")
            return
        except SandboxError as error:
            say(f"the mirror in the apt sources did not do ({error}); trying the default mirror")
            _remove(system)
    run(as_root(command), 900, "debootstrap")


def _keep_server(system: Path, target: Path) -> None:
    usr = system / "usr"
    (target / "bin").mkdir(parents=True)
    for program in (usr / "sbin/mysqld", usr / "bin/mysql"):
        shutil.copy2(program, target / "bin")
    libraries = next(usr.glob("lib/*-linux-gnu"))
    shutil.copytree(libraries, target / "lib", symlinks=True, ignore_dangling_symlinks=True)
    shutil.copytree(usr / "share/mysql", target / "share/mysql", symlinks=True)
    shutil.copytree(usr / "lib/mysql/plugin", target / "plugin", symlinks=True)
    version = subprocess.run([*unpacked_mysql(target).server, "--version"], capture_output=True, text=True, timeout=60)
    if version.returncode != 0:
        raise SandboxError(f"the MySQL server just unpacked does not run: {version.stderr.strip()}")
    (target / "VERSION").write_text(version.stdout)
    say(f"MySQL is there: {version.stdout.split('Ver', 1)[-1].strip()}")


def _remove(directory: Path) -> None:
    if directory.exists():
        run(as_root(["rm", "-rf", "--one-file-system", str(directory)]), 300, f"removing {directory}")
