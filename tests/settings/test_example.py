"""config/example.yaml shows every key there is, with the default the code has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, SecretStr

from migrate.settings import Settings, load

EXAMPLE = Path(__file__).parents[2] / "config" / "example.yaml"
ENVIRONMENT = {f"{name}_PASSWORD": f"pw-{name}" for name in ("STATE", "SOURCE", "TARGET")}


@pytest.fixture(scope="module")
def raw() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def settings() -> Settings:
    return load(EXAMPLE, ENVIRONMENT)


def leaves(model: BaseModel, raw: Any, where: str = "") -> list[tuple[str, Any, Any, Any]]:
    """(key, field, value in the code's words, value in the file) of every key below; lists by their first item."""
    found = []
    for name, field in type(model).model_fields.items():
        key = field.alias or name
        path = f"{where}.{key}" if where else key
        value = getattr(model, name)
        written = raw.get(key, ...) if isinstance(raw, dict) else ...
        found.append((path, field, value, written))
        if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            value, written, path = value[0], written[0] if written is not ... else ..., f"{path}.0"
        if isinstance(value, BaseModel):
            found += leaves(value, written, path)
    return found


def test_it_loads(settings: Settings) -> None:
    assert settings.name == "shop"
    assert settings.state.password.get_secret_value() == "pw-STATE"
    assert settings.tables[0].sharding["nodes"] == "ds_${0..3}.orders_${0..3}"


def test_it_shows_every_key(settings: Settings, raw: dict[str, Any]) -> None:
    everything = leaves(settings, raw)
    assert len(everything) > 80
    assert [path for path, _, _, written in everything if written is ...] == []


def test_its_defaults_are_the_codes(settings: Settings, raw: dict[str, Any]) -> None:
    other = {
        path: value
        for path, field, value, _ in leaves(settings, raw)
        if not field.is_required()
        and not isinstance(value, SecretStr)
        and value != field.get_default(call_default_factory=True)
    }
    assert other == {}


UNITS = {"seconds": "second", "bytes": "bytes", "hours": "", "timeout": "seconds", "rows": "rows", "keys": "keys"}


def test_every_key_of_the_optional_sections_says_what_it_is_and_in_which_unit() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    lines = [line for line in text[text.index("\nkafka:") :].splitlines() if line.startswith("  ")]
    for line in lines:
        key, _, rest = line.strip().partition(": ")
        if line.startswith("  ") and line[2] not in " -#":
            _, sign, comment = rest.partition("#")
            assert sign, line
            unit = UNITS.get(key.rsplit("_", 1)[-1], "")
            assert unit in comment or key.startswith("retry"), line
