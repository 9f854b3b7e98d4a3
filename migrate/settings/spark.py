"""Options for Spark itself, checked: none that the service must set, none that would show a secret."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

_OURS = {
    "spark.master": "copy.master and verify.master say it",
    "spark.app.name": "it is the migration's name",
    "spark.speculation": "a second run of a task would only cost the first one its chunk",
    "spark.task.maxFailures": "a chunk that failed is begun anew by the copy itself",
}
_LOADS = re.compile(
    r"spark\.(jars(\..*)?|plugins|files|extraListeners|serializer|closure\.serializer|kryo\.(registrator|classesToRegister)"
    r"|submit\.pyFiles|shuffle\.(manager|sort\.io\.plugin\.class)|ui\.filters|metrics\.conf.*"
    r"|sql\.(extensions|catalog.*|queryExecutionListeners)|hadoop\..*\.impl)"
    r"|.*\.(extraClassPath|userClassPathFirst|extraLibraryPath|discoveryScript|discoveryPlugin)"
)
"""Names a class or a library (Spark's configuration page, "Runtime Environment")."""
_JAVA = re.compile(r".*\.(extra|default)JavaOptions")
_AGENTS = re.compile(
    r"-(agent|javaagent|Xbootclasspath|XX:\+?(On|Flags|VMOptionsFile)|cp\b|-?class-?path|-?module-path)|@"
)
"""Of java's options those that load code or run a command (its manual page)."""
_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""As Spark's own spark.redaction.regex."""
_NAMES_ONE = re.compile(r"file$|^spark\.kubernetes\..*\.(secrets|secretKeyRef)\.", re.IGNORECASE)
"""The value says where the secret is."""


def _text(options: object) -> object:
    """YAML's true and 4 as Spark writes them."""
    if not isinstance(options, dict):
        return options
    return {name: _one(value) for name, value in options.items()}


def _one(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _allowed(options: dict[str, str]) -> dict[str, str]:
    for name, value in options.items():
        if not re.fullmatch(r"spark\.[\w.-]+", name):
            raise ValueError(f"'{name}' is no option of Spark, whose names begin with 'spark.'")
        if name in _OURS:
            raise ValueError(f"'{name}' cannot be set here: {_OURS[name]}")
        if _LOADS.fullmatch(name) or (_JAVA.fullmatch(name) and _AGENTS.search(value)):
            raise ValueError(
                f"'{name}' loads code into Spark's JVM, which no config file may name; put it into"
                " spark-defaults.conf, in SPARK_CONF_DIR"
            )
        if _SECRET.search(name) and not _NAMES_ONE.search(name):
            raise ValueError(
                f"'{name}' would be seen in the list of processes; put it into spark-defaults.conf, in SPARK_CONF_DIR"
            )
    return options


SparkOptions = Annotated[dict[str, str], BeforeValidator(_text), AfterValidator(_allowed)]
