"""`CLASS_BASED`: a Python function of an installed package stands for the Java class that decides where a row goes.

It is named by an entry point of the group `migrate.sharding`, which has the class's name (Python packaging user guide,
"Entry points specification"), and held against examples before anything is routed by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from migrate.model.errors import ConfigError
from migrate.sharding.columns import ValueReader
from migrate.sharding.javatypes import JavaError, from_units, to_units

_BY_HINT = (
    "the application gives the value by HintManager, so no column says where a row belongs; write the rule that its"
    " code follows as INLINE or COMPLEX_INLINE, by the columns it takes the value from"
)
"""Why there is no rule of the kind HINT, and the way out."""


def way_out(kind: str, otherwise: str) -> str:
    """Of a strategy or an algorithm that is not supported. otherwise: of one that is none of HINT's."""
    return _BY_HINT if kind.upper() in ("HINT", "HINT_INLINE") else otherwise


GROUP = "migrate.sharding"
_OWN = ("strategy", "algorithmclassname")


def is_complex(props: Mapping[str, object]) -> bool:
    """Whether a class takes several columns."""
    return str(props.get("strategy", "")).upper() == "COMPLEX"


@dataclass(frozen=True, slots=True)
class ClassBased:
    """The function of one level of a rule. names: among which it chooses."""

    java_class: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    props: Mapping[str, str]
    function: Callable[[Any, Sequence[str], Mapping[str, str]], object]
    package: str

    @classmethod
    def of(cls, props: Mapping[str, object], key: str, names: Sequence[str], columns: Sequence[str]) -> ClassBased:
        """Raises ConfigError where there is no such function, or several."""
        lowered = {name.lower(): value for name, value in props.items()}
        java_class, strategy = str(lowered.get("algorithmclassname", "")), str(lowered.get("strategy", "")).upper()
        if not java_class:
            raise ConfigError(f"{key}.props.algorithmClassName is missing", hint="the name of the Java class")
        if strategy not in ("STANDARD", "COMPLEX"):
            raise ConfigError(
                f"{key}.props.strategy: '{strategy}' is not supported",
                hint=f"STANDARD and COMPLEX are; with HINT {_BY_HINT}",
            )
        point, package = _entry_point(java_class, key)
        try:
            function = point.load()
        except Exception as error:
            raise ConfigError(f"{key}: {point.value} cannot be loaded: {type(error).__name__}: {error}") from error
        more = {name: str(value) for name, value in props.items() if name.lower() not in _OWN}
        return cls(java_class, tuple(names), tuple(columns), more, function, package)

    def bucket(self, value: Any) -> str:
        """The name, as UTF-16 units, for a Java value; of several columns a tuple. Raises JavaError."""
        try:
            found = self.function(self._readable(value), self.names, self.props)
        except Exception as error:
            raise JavaError(f"the function for {self.java_class} raised {type(error).__name__}") from None
        if not isinstance(found, str):
            raise JavaError(f"the function for {self.java_class} gave no name")
        return to_units(found)

    def refuse_unlike(self, key: str, examples: Sequence[Sequence[str]], readers: Sequence[ValueReader]) -> None:
        """Raise ConfigError for an example for which the function gives another name."""
        if not examples:
            raise ConfigError(
                f"{key}.examples is missing: {self.java_class} is held against them",
                hint="examples: [[VALUE, NAME], …], as the application's own class places these values",
            )
        for *texts, wanted in examples:
            try:
                values = [reader.read([text])[0] for reader, text in zip(readers, texts, strict=True)]
                found = from_units(self.bucket(values[0] if len(values) == 1 else tuple(values)))
            except JavaError as error:
                raise ConfigError(f"{key}.examples: {', '.join(texts)}: {error}") from None
            if found != wanted:
                raise ConfigError(
                    f"{key}.examples: for {', '.join(texts)} the function for {self.java_class} gives '{found}', and"
                    f" '{wanted}' is written"
                )

    def _readable(self, value: Any) -> Any:
        if len(self.columns) == 1:
            return from_units(value) if isinstance(value, str) else value
        texts = [from_units(one) if isinstance(one, str) else one for one in value]
        return dict(zip(self.columns, texts, strict=True))


def _entry_point(java_class: str, key: str) -> tuple[EntryPoint, str]:
    """With the package, and its version, that has it."""
    found = [*entry_points(group=GROUP, name=java_class)]
    if len(found) != 1:
        there = "no installed package has" if not found else "several installed packages have"
        raise ConfigError(
            f"{key}: {java_class} decides, a Java class, and {there} an entry point of that name in the group {GROUP}",
            hint="docs/sharding.md#rules-that-a-java-class-decides; or write what it computes as INLINE",
        )
    dist = found[0].dist
    return found[0], f"{dist.name} {dist.version}" if dist is not None else "an unknown package"
