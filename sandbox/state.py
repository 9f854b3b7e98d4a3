"""What a server must remember to come up again on its data: a small JSON file only its owner can read."""

import json
import os
from pathlib import Path
from typing import Any


def load(path: Path) -> dict[str, Any]:
    """The remembered values; empty when there are none yet."""
    if not path.exists():
        return {}
    values: dict[str, Any] = json.loads(path.read_text())
    return values


def private_file(path: Path, text: str) -> None:
    """Write `text` to a file with mode 0600, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    part.replace(path)


def save(path: Path, values: dict[str, Any]) -> None:
    """Remember the values."""
    private_file(path, json.dumps(values, indent=1))
