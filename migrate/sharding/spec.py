"""A table's `sharding:` as the config file has it: the rule itself, or a ShardingSphere rule file that holds it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from migrate.model.errors import ConfigError
from migrate.sharding.javatypes import JavaType
from migrate.sharding.shardingsphere import RuleFile

_OF_A_FILE = ("file", "content", "logic-table", "value-types", "examples")


def spec_of(
    written: Mapping[str, object], table: str, part: str = "sharding", databases: Collection[str] = ()
) -> Mapping[str, object]:
    """The mapping that `build_rule` takes.

    written: that mapping; or `file`, the name of a rule file, with `content`, its bytes, which
    `migrate.settings.loading` adds. Beside it: `logic-table`, the table's name there (without it that of `table`, which
    is written as `shop.orders`), `value-types`, Java types by sharding column, and `examples`, by level. part: what
    messages call it. databases: all that the config has, in each of which a broadcast table of the file is.
    Raises ConfigError, which names the table, and the key or the file.
    """
    if "file" not in written:
        return written
    where = f"table '{table}': {part}"
    unknown = next((key for key in written if key not in _OF_A_FILE), None)
    if unknown is not None:
        raise ConfigError(
            f"{where}.{unknown} does not go with {part}.file",
            hint=f"beside 'file' there may be {', '.join(_OF_A_FILE[2:])}; the rule itself is the file's",
        )
    content, types, examples = written.get("content"), written.get("value-types", {}), written.get("examples", {})
    if not isinstance(content, bytes):
        raise ConfigError(f"{where}.file is the name of a ShardingSphere rule file, relative to the config file")
    if not isinstance(types, Mapping) or not all(str(one) in {*JavaType} for one in types.values()):
        raise ConfigError(f"{where}.value-types gives a Java type by column", hint=f"types: {', '.join(JavaType)}")
    if not isinstance(examples, Mapping):
        raise ConfigError(f"{where}.examples gives a list of examples by level: database, table, or both")
    logic_table = str(written.get("logic-table", table.rpartition(".")[2]))
    try:
        named = {str(key): str(types[key]) for key in types}
        return _parsed(content, str(written["file"])).spec(logic_table, named, examples, databases)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", hint=error.given) from None


@lru_cache(maxsize=8)
def _parsed(content: bytes, name: str) -> RuleFile:
    """One file is named by many tables."""
    try:
        return RuleFile(content.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is no text: {error}") from None
