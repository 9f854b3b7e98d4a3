"""Reading the config file: the only way in, with one line for each mistake."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from migrate import config_text
from migrate.model.errors import ConfigError
from migrate.model.secrets import is_secret
from migrate.settings.model import Settings


def load(path: Path, env: Mapping[str, str] | None = None) -> Settings:
    """Read and validate the config file.

    Args: the YAML file, and the environment that `${NAME}` is looked up in.
    Raises: ConfigError, one line for each mistake, naming the key.
    """
    settings, _ = load_with_text(path, env)
    return settings


def load_with_text(path: Path, env: Mapping[str, str] | None = None) -> tuple[Settings, str]:
    """As `load`, with the text of the file as written (secrets still as `${NAME}`)."""
    raw, text = config_text.read(path)
    with_rules = _with_rule_files(raw, path.parent)
    return parse(with_rules, os.environ if env is None else env, str(path)), text


def parse(raw: Mapping[str, Any], env: Mapping[str, str], where: str = "config") -> Settings:
    """Validate settings that are already a mapping. Raises ConfigError."""
    expanded = config_text.expand(raw, env)
    try:
        return Settings.model_validate(expanded)
    except ValidationError as error:
        raise explained_in(error, raw, where) from None


def explained_in(error: ValidationError, raw: Mapping[str, Any], where: str) -> ConfigError:
    """One line for each mistake. raw: the settings as written; where: in which file."""
    details = error.errors(include_url=False, include_input=False)
    lines = [_line(detail, raw) for detail in details if not _follows(detail, details)]
    return ConfigError("; ".join(lines), hint=f"in {where}; config/example.yaml shows every key")


def _with_rule_files(raw: Mapping[str, Any], directory: Path) -> Mapping[str, Any]:
    """The settings with the bytes of each `sharding.file` and `home.file` beside its name, which is relative to the
    config file's directory: what is planned here or in a task of Spark's reads no file. Raises ConfigError."""
    tables = raw.get("tables")
    if not isinstance(tables, list):
        return raw
    read: dict[Path, bytes] = {}

    def with_content(name: object, part: str, rule: Mapping[str, Any]) -> Mapping[str, Any]:
        path = directory / rule["file"]
        try:
            content = read[path] if path in read else read.setdefault(path, path.read_bytes())
        except OSError as error:
            raise ConfigError(
                f"tables: {name}: {part}.file: cannot read {path}: {error.strerror}",
                hint="its name is relative to the directory of the config file",
            ) from None
        return {**rule, "content": content}

    made = []
    for table in tables:
        for part in ("sharding", "home") if isinstance(table, dict) else ():
            rule = table.get(part)
            if isinstance(rule, dict) and isinstance(rule.get("file"), str):
                table = {**table, part: with_content(table.get("name"), part, rule)}
        made.append(table)
    return {**raw, "tables": made}


def _follows(detail: Any, details: list[Any]) -> bool:
    """A list is also called too short when one of its items is wrong."""
    loc = detail["loc"]
    deeper = (other["loc"] for other in details if len(other["loc"]) > len(loc))
    return detail["type"] == "too_short" and any(other[: len(loc)] == loc for other in deeper)


def _line(detail: Any, raw: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"unknown key '{key}'"
    if kind == "missing":
        return f"missing key '{key}'"
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"'{key}': {message}{_written(raw, detail['loc'])}" if key else message


def _written(raw: Any, loc: tuple[str | int, ...]) -> str:
    """The value as the file has it: what the environment gave is not shown, nor anything that may be a secret."""
    if "security" in loc or any(is_secret(str(part)) for part in loc):
        return ""
    for part in loc:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return ""
    return f" (is {raw!r})" if isinstance(raw, str | int | float) else ""
