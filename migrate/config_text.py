"""The text of the config file: YAML whose keys are there once, and values from the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from migrate.model.errors import ConfigError
from migrate.model.secrets import is_secret

_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_RULE = re.compile(r"tables\.\d+\.(sharding|home)\b")
"""Inline expressions use ${...} themselves."""


_FROM_ENV = re.compile(r"(?:\$\{[A-Za-z_][A-Za-z0-9_]*\})+")
_IN_COMMENT = re.compile(r"(#.*?(?:pass|secret|token)\w*[\"']?\s*[:=]\s*)\S.*", re.IGNORECASE)
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
"""What may stand before a value: an anchor, a tag."""
_MASK = "'***'"


class _Loader(yaml.SafeLoader):
    """YAML takes the last of two equal keys without a word; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key.value}' is there twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read(path: Path) -> tuple[dict[str, Any], str]:
    """The file as a mapping, and its text as written. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"no such file: {path}", hint="start from config/example.yaml and pass it with --config"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    try:
        raw = yaml.load(text, _Loader)  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} holds no settings", hint="see config/example.yaml")
    return raw, text


def masked(text: str) -> str:
    """The text of a config file with every secret that is written out taken from it.

    Which settings are secrets their keys say, however their values are written; names of environment variables stay.
    Comments lose what follows a word for a secret. text: YAML.
    """
    spans = {(node.start_mark.index, node.end_mark.index) for node in _secrets(yaml.compose(text, _Loader))}
    for begin, end in sorted(spans, reverse=True):
        start = _PROPERTIES.match(text, begin).end()  # type: ignore[union-attr]  # it matches nothing too
        is_block = text[start] in "|>"
        text = text[:start] + _MASK + ("\n" if is_block else "") + text[end:]
    return _IN_COMMENT.sub(r"\1***", text)


def _secrets(node: yaml.Node | None, hidden: bool = False) -> Iterator[yaml.ScalarNode]:
    """The scalars below keys of secrets."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _secrets(value, hidden or is_secret(str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _secrets(item, hidden)
    elif isinstance(node, yaml.ScalarNode) and hidden and node.value and not _FROM_ENV.fullmatch(node.value):
        yield node


def expand(value: Any, env: Mapping[str, str], key: str = "") -> Any:
    """`${NAME}` in texts replaced from the environment, except in sharding rules. Raises ConfigError."""
    if isinstance(value, dict):
        return {name: expand(item, env, f"{key}.{name}" if key else str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [expand(item, env, f"{key}.{index}") for index, item in enumerate(value)]
    if isinstance(value, str) and not _RULE.match(key):
        return _ENV.sub(lambda match: _look_up(match.group(1), env, key), value)
    return value


def _look_up(name: str, env: Mapping[str, str], key: str) -> str:
    if name not in env:
        raise ConfigError(
            f"environment variable {name}, named by '{key}', is not set", hint=f"export {name}=... before the command"
        )
    return env[name]
