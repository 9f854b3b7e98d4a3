"""Prometheus's own check of metrics and alert rules, taken out of Debian's package: nobody needs that one's service."""

import shutil
from tempfile import TemporaryDirectory

from sandbox.binaries import promtool
from sandbox.errors import SandboxError
from sandbox.install.system import run, say
from sandbox.paths import cache_dir


def install() -> None:
    """Into the cache, where it is not there yet; without it, the tests that need it are left out and say so."""
    if promtool() is not None or shutil.which("apt-get") is None:
        return
    say("fetching promtool, out of Debian's package prometheus: 19 MB")
    try:
        with TemporaryDirectory(dir=cache_dir()) as directory:
            run(["sh", "-c", 'cd "$0" && apt-get download -q prometheus', directory], 300, "apt-get download")
            run(["sh", "-c", 'cd "$0" && dpkg-deb -x prometheus_*.deb .', directory], 120, "dpkg-deb -x")
            shutil.move(f"{directory}/usr/bin/promtool", cache_dir() / "promtool")
    except SandboxError as error:
        say(f"without promtool: {error}")
