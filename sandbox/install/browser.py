"""What the pages of `migrate web` are tested in: Debian's Chromium with its driver, and axe-core, which checks them."""

import shutil
from tempfile import TemporaryDirectory

from sandbox.binaries import which
from sandbox.install.system import apt_install, npm_pack, say
from sandbox.paths import axe, cache_dir
from sandbox.settings import AXE_VERSION

_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"  # of the package's archive


def missing_packages() -> list[list[str]]:
    """Debian packages to install, each with its alternatives."""
    packages = [[name] for name, program in (("chromium", "chromium"), ("chromium-driver", "chromedriver"))
                if which(program) is None]  # fmt: skip
    if not axe().exists() and which("npm") is None:
        packages.append(["npm"])
    return packages


def install() -> None:
    """What of them is missing. Raises SandboxError."""
    apt_install(missing_packages())
    if axe().exists():
        return
    say(f"fetching axe-core {AXE_VERSION} with npm into {cache_dir()}: 1 MB")
    with TemporaryDirectory(dir=cache_dir()) as directory:
        package = npm_pack(f"axe-core@{AXE_VERSION}", _SHA256, cache_dir() / directory)
        shutil.move(package / "axe.min.js", axe())
