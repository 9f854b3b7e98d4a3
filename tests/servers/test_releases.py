"""Further servers: what is fetched is what was pinned, and what is not there is said by name."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.binaries import database_programs
from sandbox.errors import SandboxError
from sandbox.install.system import checked
from sandbox.releases import RELEASES, USUAL, Maven, Npm, options_of, release
from tests.servers.pair import PAIRS, pairs_of


def test_an_archive_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "server.tgz").write_bytes(b"another server")
    with pytest.raises(SandboxError, match=r"server\.tgz is not what it was"):
        checked(tmp_path, "*.tgz", "0" * 64)
    assert checked(tmp_path, "*.tgz", hashlib.sha256(b"another server").hexdigest()) == tmp_path / "server.tgz"
    pinned = [one.fetched.sha256 for one in RELEASES.values() if isinstance(one.fetched, Maven | Npm)]
    assert [len(one) for one in pinned] == [64, 64]


def test_a_release_that_is_unknown_or_not_fetched_is_said_by_name() -> None:
    assert {name: release(name) for name in USUAL} == dict.fromkeys(USUAL)
    with pytest.raises(SandboxError, match=r"no server 'mysql-4\.1'; there are mariadb, mysql, mariadb-10\.5"):
        release("mysql-4.1")
    missing = replace(RELEASES["mysql-5.6"], name="mysql-5.6-of-nobody")
    with pytest.raises(SandboxError, match=r"run: make servers SERVERS=mysql-5\.6-of-nobody"):
        database_programs(missing.flavour, missing)


def test_a_release_is_not_given_options_that_it_does_not_have() -> None:
    old = RELEASES["mysql-5.6"]
    usual, here = options_of(old.flavour, None), options_of(old.flavour, old)
    assert usual["binlog_row_metadata"] == "FULL"
    assert "binlog_row_metadata" not in here
    assert here["binlog_row_image"] == "FULL"


def test_pairs_name_servers_that_there_are() -> None:
    assert {name for pair in PAIRS for name in pair} == {*USUAL, *RELEASES}
    assert all("mariadb-10.5" in pair for pair in pairs_of(["mariadb-10.5"]))
