"""Loading SQL files as the server's own client does it: DELIMITER, version comments, triggers."""

import subprocess
import tempfile
from pathlib import Path

from sandbox import state
from sandbox.binaries import database_programs
from sandbox.database import DatabaseServer
from sandbox.errors import SandboxError


def load_sql(server: DatabaseServer, *paths: Path, database: str | None = None, seconds: float = 300.0) -> None:
    """Run SQL files one after the other, in `database` if given; stops at the first error.

    Raises SandboxError with the client's message and the file's name, or when a file exceeds `seconds`.
    """
    client = database_programs(server.flavour, server.release).client
    with tempfile.TemporaryDirectory() as directory:
        defaults = Path(directory) / "client.cnf"  # the password must not show in the process list
        state.private_file(
            defaults,
            f"[client]\nhost={server.host}\nport={server.port}\nprotocol=tcp\n"
            f"user={server.user}\npassword={server.password}\n",
        )
        command = [*client, f"--defaults-file={defaults}", "--default-character-set=utf8mb4"]
        command += [f"--database={database}"] if database else []
        for path in paths:
            _run(command, path, seconds)


def _run(command: list[str], path: Path, seconds: float) -> None:
    with path.open("rb") as sql:
        try:
            ended = subprocess.run(command, stdin=sql, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise SandboxError(f"{path} was not loaded within {seconds:.0f} s") from None
    if ended.returncode != 0:
        raise SandboxError(f"{path} was not loaded: {ended.stderr.decode(errors='replace').strip()}")
