"""The installer's decisions and words. apt is a stand-in here: a test must not change the machine it runs on."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.errors import SandboxError
from sandbox.install import plan
from sandbox.install.jars import Jars
from sandbox.install.kafka import KAFKA
from sandbox.install.shardingsphere import SHARDINGSPHERE
from sandbox.install.system import as_root, run
from sandbox.paths import PROJECT
from sandbox.settings import KAFKA_VERSION, SHARDINGSPHERE_VERSION, Flavour

APT_GET = """#!/bin/sh
echo "apt-get $*" >> "$CALLS"
case "$*" in
  *--assume-no*) echo "Need to get 24.5 MB of archives."
                 echo "After this operation, 173 MB of additional disk space will be used."; exit 1 ;;
  indextargets*) echo "Debian|Debian-Security|main|http://mirror.example/security"
                 echo "Debian|Debian|contrib|http://mirror.example/contrib"
                 echo "Debian|Debian|main|http://mirror.example/debian" ;;
  install*) test -n "$APT_WORKS" || { echo "E: Unable to fetch some archives"; exit 100; } ;;
esac
"""

APT_CACHE = """#!/bin/sh
case "$2" in unknown*) ;; *) printf '%s:\\n  Candidate: 1.0\\n' "$2" ;; esac
"""


# For those who run the tests as another user than root: `sudo env NAME=value... COMMAND`.
SUDO = """#!/bin/sh
shift
while case $1 in *=*) true ;; *) false ;; esac; do shift; done
exec "$@"
"""


@pytest.fixture
def apt(tmp_path: Path) -> dict[str, str]:
    """Environment in which apt-get, apt-cache and sudo are stand-ins, calls are noted, and little else is there."""
    for name, text in (("apt-get", APT_GET), ("apt-cache", APT_CACHE), ("sudo", SUDO)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return {
        "PATH": str(tmp_path),
        "CALLS": str(tmp_path / "calls"),
        "APT_WORKS": "yes",
        "SANDBOX_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(PROJECT),
    }


def python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run code in a process with that environment alone."""
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=PROJECT, timeout=60
    )


INSTALL = "from sandbox.install.system import apt_install; apt_install({})"


class TestApt:
    def test_packages_and_sizes_are_said_before_anything_is_installed(self, apt: dict[str, str]) -> None:
        ended = python(INSTALL.format('[["first"], ["unknown", "second"]]'), apt)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.splitlines() == [
            "sandbox: installing Debian packages: first second (Need to get 24.5 MB of archives; "
            "After this operation, 173 MB of additional disk space will be used)",
        ]
        calls = Path(apt["CALLS"]).read_text().splitlines()
        assert calls[-1] == "apt-get install -q --no-install-recommends first second --yes"

    def test_lists_are_fetched_only_when_a_package_is_not_known(self, apt: dict[str, str]) -> None:
        python(INSTALL.format('[["known"]]'), apt)
        assert "apt-get update" not in Path(apt["CALLS"]).read_text()
        python(INSTALL.format('[["unknown"]]'), apt)
        assert "apt-get update -q" in Path(apt["CALLS"]).read_text()

    def test_a_package_nobody_has_is_named(self, apt: dict[str, str]) -> None:
        ended = python(INSTALL.format('[["unknown-a", "unknown-b"]]'), apt)
        assert "apt knows no package unknown-a or unknown-b; is this Debian 12 or later?" in ended.stderr

    def test_a_failing_apt_is_tried_with_new_lists_once_and_then_shown(self, apt: dict[str, str]) -> None:
        ended = python(INSTALL.format('[["first"]]'), {**apt, "APT_WORKS": ""})
        assert "apt-get install failed with exit status 100" in ended.stderr
        assert "E: Unable to fetch some archives" in ended.stderr
        calls = Path(apt["CALLS"]).read_text().splitlines()
        assert [call.split()[1] for call in calls] == ["install", "install", "update", "install"]


def test_without_apt_the_missing_packages_are_named(tmp_path: Path) -> None:
    ended = python(INSTALL.format('[["maven"], ["debootstrap"]]'), {"PATH": str(tmp_path), "PYTHONPATH": str(PROJECT)})
    assert "needed, and not to be had without apt: maven, debootstrap" in ended.stderr


def test_nothing_there_means_every_package_that_the_flavour_needs(apt: dict[str, str]) -> None:
    code = (
        "import sandbox.install.plan as plan; from sandbox.settings import Flavour\n"
        # They are no programs, so an empty PATH does not hide them.
        "plan.faketime.library = plan.unsynced.library = lambda: None; plan.LIBRARY = plan.cache_dir() / 'none'\n"
        "for flavours in ([Flavour.MARIADB], [Flavour.MYSQL], Flavour):\n"
        "    print(*(names[0] for names in plan.missing_packages(flavours)))"
    )
    ended = python(code, apt)
    mariadb, mysql, both = ended.stdout.splitlines()
    always = ["openjdk-17-jre-headless", "maven"]
    assert mariadb.split() == ["mariadb-server-core", "mariadb-client-core", *always]
    assert [name for name in mysql.split() if name != "debootstrap"] == always
    only_tests_need = ["libfaketime", "galera-4", "libeatmydata1", "gcc", "libc6-dev", "spin"]
    assert both.split()[-6:] == only_tests_need


def test_the_mirror_is_debians_main_archive_of_the_apt_sources(apt: dict[str, str]) -> None:
    ended = python("from sandbox.install.system import debian_mirror; print(debian_mirror())", apt)
    assert ended.stdout == "http://mirror.example/debian\n"


def test_root_rights_come_from_sudo_for_other_users_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert as_root(["apt-get", "update"]) == ["apt-get", "update"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="sudo is not there; run as root: apt-get update"):
        as_root(["apt-get", "update"])
    (tmp_path / "sudo").write_text("#!/bin/sh\n")
    (tmp_path / "sudo").chmod(0o755)
    command = as_root(["apt-get", "update"])
    assert command[0] == "sudo"
    assert command[-2:] == ["apt-get", "update"]
    assert "DEBIAN_FRONTEND=noninteractive" in command


def test_an_installer_that_hangs_is_ended() -> None:
    with pytest.raises(SandboxError, match="waiting did not end within 1 s"):
        run(["sleep", "60"], 1, "waiting")


@pytest.mark.parametrize(("jars", "version"), [(KAFKA, KAFKA_VERSION), (SHARDINGSPHERE, SHARDINGSPHERE_VERSION)])
def test_jars_of_another_list_are_fetched_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jars: Jars, version: str
) -> None:
    monkeypatch.setenv("SANDBOX_CACHE", str(tmp_path))
    assert not jars.is_installed()
    jars.lib().mkdir(parents=True)
    listed = jars.lib().with_name("pom.xml")
    listed.write_text(jars.pom)
    assert jars.is_installed()
    listed.write_text(jars.pom.replace(version, "4.0.0"))
    assert not jars.is_installed()


def test_shardingsphere_is_fetched_for_the_tests_and_not_for_a_demo() -> None:
    assert [SHARDINGSPHERE in plan.jars(wanted) for wanted in ({*Flavour}, {Flavour.MYSQL})] == [True, False]


def test_the_application_has_the_version_that_made_the_vectors() -> None:
    made = PROJECT / "tests" / "sharding"
    vectors = json.loads((made / "vectors.json").read_text("utf-8"))
    assert vectors["shardingsphere"] == SHARDINGSPHERE_VERSION
    assert f"<version>{SHARDINGSPHERE_VERSION}</version>" in (made / "generator" / "pom.xml").read_text("utf-8")


def test_no_set_up_file_names_a_package_registry() -> None:
    """Clients find their registries by themselves; a mirror that a user configured must not be bypassed."""
    patterns = ("Makefile", "requirements.lock", "pyproject.toml", ".ci/run", "sandbox/**/*.py", "sandbox/setup.sh")
    files = [path for pattern in patterns for path in PROJECT.glob(pattern)]
    assert len(files) > 20
    assert [str(path) for path in files if re.search(r"(https?|ftp)://", path.read_text())] == []
