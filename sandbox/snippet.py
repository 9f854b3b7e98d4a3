"""The part of a migrate config file that names the sandbox's servers; passwords go by environment."""

from collections.abc import Container

from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox


def _names(box: Sandbox) -> list[tuple[str, DatabaseServer]]:
    return [*sources(box), *_targets(box)]


def sources(box: Sandbox) -> list[tuple[str, DatabaseServer]]:
    """Each with its name in the config."""
    return [(f"source{n if n > 1 else ''}", server) for n, server in enumerate(box.sources, 1)]


def _targets(box: Sandbox) -> list[tuple[str, DatabaseServer]]:
    return [(f"target{n}", target) for n, target in enumerate(box.targets, 1)]


def _variable(name: str) -> str:
    return f"{name.upper()}_PASSWORD"


def environment(box: Sandbox) -> dict[str, str]:
    """Environment variables with the passwords that `config` refers to."""
    return {_variable(name): server.password for name, server in _names(box)}


def _server(name: str, server: DatabaseServer, *, named: bool = True) -> str:
    fields = [f"name: {name}"] if named else []
    fields += [f"host: {server.host}", f"port: {server.port}", f"user: {server.user}"]
    fields.append(f'password: "${{{_variable(name)}}}"')
    return "{" + ", ".join(fields) + "}"


def config(box: Sandbox, sources_named: Container[str] | None = None) -> str:
    """YAML with the keys state, sources, targets and, if there is a broker, kafka.

    State is kept at the first target; where there is none, at the source. sources_named: only these; None is all.
    """
    old = [(name, server) for name, server in sources(box) if sources_named is None or name in sources_named]
    new = _targets(box)
    state_name, state = (new or old)[0]
    lines = [f"state: {_server(state_name, state, named=False)}", "sources:"]
    lines += [f"  - {_server(name, server)}" for name, server in old] + ["targets:"]
    lines += [f"  - {_server(name, server)}" for name, server in new]
    if box.has_kafka:
        lines.append(f"kafka: {{bootstrap: {box.kafka.bootstrap!r}}}")
    return "\n".join(lines) + "\n"
