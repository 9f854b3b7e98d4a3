"""Inline expressions: lists of physical nodes, and the INLINE algorithm.

Both are texts with `${...}` or `$->{...}` in them, as ShardingSphere's Groovy parser reads them.
Nothing is ever handed to an interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from migrate.model.errors import ConfigError
from migrate.sharding.evaluate import compile_tree
from migrate.sharding.groovy import parse
from migrate.sharding.javatypes import MOMENTS, JavaType, to_string, to_units
from migrate.sharding.typed import as_text

_MOST_NODES = 100_000
_NAME = re.compile(r"[^\W\d]\w*")
_ITEM = r"-?\d+|'[^'\\$]*'|\"[^\"\\$]*\""
_RANGE = re.compile(r"(-?\d+)\s*\.\.\s*(<?)\s*(-?\d+)")
_LETTERS = re.compile(r"(['\"])([A-Za-z])\1\s*\.\.\s*(['\"])([A-Za-z])\3")
_LIST = re.compile(rf"\[\s*(?:{_ITEM})(?:\s*,\s*(?:{_ITEM}))*\s*\]")
_ONE = re.compile(_ITEM)
_OWN_NAMES = frozenset(
    {"delegate", "directive", "it", "maximumNumberOfParameters", "metaClass", "owner", "parameterTypes"}
    | {"resolveStrategy", "thisObject", "Math", "Long", "Integer", "String", "Date", "UUID", "URI", "URL"}
    | {"Currency", "Locale", "Number", "Object", "Record", "Version", "Package", "Process", "File"}
)
"""Names that mean something else to a Groovy closure than the column."""


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The parts of a template in order: (is it code?, text). Raises ConfigError for what is malformed."""
    plain, position = "", 0
    while position < len(text):
        character = text[position]
        if character in '"\\\n\r':
            raise ConfigError(f"an inline expression with {character!r} outside ${{...}} is refused")
        if character != "$":
            plain, position = plain + character, position + 1
            continue
        start = next((len(sign) for sign in ("$->{", "${") if text.startswith(sign, position)), 0)
        if plain:
            yield False, plain
            plain = ""
        if start:
            end = _closing(text, position + start)
            yield True, text[position + start : end]
            position = end + 1
            continue
        name = _NAME.match(text, position + 1)
        if name is None or text.startswith(".", name.end()):
            raise ConfigError("a '$' in an inline expression that starts neither ${...} nor a column's name")
        yield True, name[0]
        position = name.end()
    if plain:
        yield False, plain


def _closing(text: str, position: int) -> int:
    """Where the brace that closes the code starting at `position` is; braces in quotes do not count."""
    quote, depth = "", 0
    for at in range(position, len(text)):
        character = text[at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "{":
            depth += 1
        elif character == "}":
            if depth == 0:
                return at
            depth -= 1
    raise ConfigError("an inline expression lacks the closing '}'")


def expand_nodes(text: str) -> list[str]:
    """Every name that a list of node expressions stands for, in ShardingSphere's order.

    `ds_${0..1}.t_${['a', 'b']}, ds_9.t_c`: several values in one item give every combination, the last
    varying fastest. Raises ConfigError.
    """
    if text.startswith("<GROOVY>"):
        text = text.removeprefix("<GROOVY>")
    elif text.startswith("<LITERAL>"):
        return [item.strip() for item in text.removeprefix("<LITERAL>").split(",")]
    elif text.startswith("<"):
        raise ConfigError(f"node expressions of the kind {text.split('>')[0]}> are not supported")
    names: list[str] = []
    for item in _split(text):
        choices = [_values(code) if is_code else [code] for is_code, code in pieces(item.strip())]
        total = len(names)
        for choice in choices:
            total = max(total, 1) * len(choice)
        if total > _MOST_NODES:
            raise ConfigError(f"an inline expression that stands for more than {_MOST_NODES} names")
        names += ["".join(parts) for parts in product(*choices)]
    return names


def _split(text: str) -> list[str]:
    """At the commas outside braces; one at the end is allowed."""
    items, item, position = [], "", 0
    while position < len(text):
        if text[position] == ",":
            items.append(item)
            item = ""
        elif text[position] == "{":
            end = _closing(text, position + 1)
            item += text[position:end]
            position = end
            continue
        else:
            item += text[position]
        position += 1
    return [*items, item] if item.strip() else items


def _values(code: str) -> list[str]:
    """The values of a range or a list, without repeats, as Groovy prints them."""
    code = code.strip()
    if match := _RANGE.fullmatch(code):
        first, last = int(_item(match[1])), int(_item(match[3]))
        step = 1 if first <= last else -1
        if match[2]:
            last -= step if first != last else 0
            if first == int(match[3]):
                raise ConfigError(f"the range {code} is empty")
        if abs(last - first) >= _MOST_NODES:
            raise ConfigError(f"the range {code} is too long")
        return [str(number) for number in range(first, last + step, step)]
    if match := _LETTERS.fullmatch(code):
        first, last = ord(match[2]), ord(match[4])
        step = 1 if first <= last else -1
        return [chr(number) for number in range(first, last + step, step)]
    if _LIST.fullmatch(code):
        return list(dict.fromkeys(_item(match[0]) for match in _ONE.finditer(code)))
    if _ONE.fullmatch(code):
        return [_item(code)]
    raise ConfigError(
        f"'{code}' is not supported in a list of nodes",
        hint="a range 0..3, 0..<4 or 'a'..'c', or a list ['a', 'b'] or [0, 2]",
    )


def _item(token: str) -> str:
    if token[0] in "'\"":
        return token[1:-1]
    number = token.lstrip("-")
    if len(number) > 1 and number[0] == "0":
        raise ConfigError(f"the number {token} is octal in Groovy and refused", hint="quote it")
    return token


def compile_inline(
    expression: str, columns: Mapping[str, JavaType]
) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
    """Two functions: from a column's Java value (of several, a tuple of them) to a key, and from that to the name, as
    UTF-16 units.

    Rows with one key have one name, and there are few keys, so names can be kept. `columns` are the sharding
    columns as the rule spells them: those are the variables' names in the expression. Raises ConfigError; the
    first function raises JavaError for values that Groovy would fail on.
    """
    expression = expression.strip().removeprefix("<GROOVY>")
    if expression.startswith("<"):
        raise ConfigError(f"expressions of the kind {expression.split('>')[0]}> are not supported")
    for column, java in columns.items():
        if column in _OWN_NAMES or not _NAME.fullmatch(column):
            raise ConfigError(f"the column name '{column}' cannot be used in a Groovy expression")
        if java in MOMENTS:
            raise ConfigError(f"INLINE does not work on a {java} here", hint="value-type: String")
    plain, codes = [""], []
    for is_code, text in pieces(expression):
        if is_code:
            compiled = compile_tree(parse(text), columns)
            exact = compiled.type is JavaType.BIG_DECIMAL  # 1 and 1.0 are equal and print differently
            codes.append(as_text(compiled) if exact else compiled)
            plain.append("")
        else:
            plain[-1] += to_units(text)
    if all(code.constant for code in codes):
        raise ConfigError(f"the expression does not use the column {' or '.join(map(repr, columns))}")
    if len(codes) == 1:
        show, (before, after) = to_string(codes[0].type), plain
        return codes[0].run, lambda key: before + show(key) + after
    runs, shows = [code.run for code in codes], [to_string(code.type) for code in codes]
    return lambda value: tuple([run(value) for run in runs]), lambda key: _joined(plain, shows, key)


def _joined(plain: list[str], shows: list[Callable[[Any], str]], key: tuple[Any, ...]) -> str:
    parts = [show(value) + after for show, value, after in zip(shows, key, plain[1:], strict=True)]
    return plain[0] + "".join(parts)
