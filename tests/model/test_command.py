"""Commands as values, and sentences that quote them."""

from __future__ import annotations

import pytest

from migrate.model.command import Command, Direction, as_typed


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("migrate drain", Command(("drain",))),
        ("drain", Command(("drain",))),
        ("migrate --reverse verify --repair", Command(("verify", "--repair"), Direction.REVERSE)),
        ("migrate --forward verify", Command(("verify",), Direction.FORWARD)),
        ("migrate --config other.yaml run", Command(("--config", "other.yaml", "run"))),
    ],
)
def test_a_line_is_a_command_and_the_other_way_round(line: str, command: Command) -> None:
    assert Command.of(line) == command
    assert str(command) == (line if line.startswith("migrate") else f"migrate {line}")


@pytest.mark.parametrize(
    ("hint", "typed"),
    [
        (
            "run `migrate drain`, then `migrate verify`",
            "run `migrate --reverse drain`, then `migrate --reverse verify`",
        ),
        ("`migrate --forward verify` is the other one", "`migrate --forward verify` is the other one"),
        ("`migrate --reverse run` first", "`migrate --reverse run` first"),
        ("`migrate cutover` once it is ready", "`migrate cutover` once it is ready"),
        ("`migrate publish --source s0` says more", "`migrate --reverse publish --source s0` says more"),
        ("`migrate --config other.yaml run`", "`migrate --config other.yaml run`"),
        ("no command, and `SET GLOBAL x = 1`", "no command, and `SET GLOBAL x = 1`"),
    ],
)
def test_a_hint_is_typed_for_the_reverse_stream(hint: str, typed: str) -> None:
    """A hint of a stream names the commands of that stream; those of the migration take no direction."""
    assert as_typed(hint, lambda command: command.towards(Direction.REVERSE)) == typed
