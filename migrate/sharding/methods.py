"""The methods of numbers and texts, and the static ones of Math, Long, Integer and String, that rules use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from migrate.model.errors import ConfigError
from migrate.sharding import arithmetic as math
from migrate.sharding import typed as core
from migrate.sharding.javatypes import (
    HASHES,
    INTEGERS,
    NUMBERS,
    JavaError,
    JavaType,
    parse_big_integer,
    parse_int,
    parse_long,
)

_INT, _LONG, _BIG = JavaType.INTEGER, JavaType.LONG, JavaType.BIG_INTEGER
_TEXT, _BOOLEAN = JavaType.STRING, JavaType.BOOLEAN
_BLANKS = "".join(map(chr, range(33)))  # what String.trim() removes
CLASSES = frozenset({"Math", "Long", "Integer", "String"})
FIELDS = {
    ("Integer", "MAX_VALUE"): (_INT, (1 << 31) - 1),
    ("Integer", "MIN_VALUE"): (_INT, -(1 << 31)),
    ("Long", "MAX_VALUE"): (_LONG, (1 << 63) - 1),
    ("Long", "MIN_VALUE"): (_LONG, -(1 << 63)),
}
_NUMBER_TO = {
    "intValue": _INT,
    "toInteger": _INT,
    "longValue": _LONG,
    "toLong": _LONG,
    "toBigInteger": _BIG,
    "toBigDecimal": JavaType.BIG_DECIMAL,
}
_OPERATORS = {"plus": "+", "minus": "-", "multiply": "*", "div": "/", "mod": "%"}


def call(target: core.Typed, method: str, arguments: list[core.Typed]) -> core.Typed:
    """`target.method(arguments)`. Raises ConfigError naming a method or argument types that are not known."""
    types = [each.type for each in arguments]
    result = None
    if method == "toString" and not arguments:
        return core.as_text(target)
    if method == "hashCode" and not arguments:
        return core.apply1(_INT, HASHES[target.type], target)
    if target.type in NUMBERS:
        result = _number_method(target, method, arguments)
    elif target.type is _TEXT:
        result = _text_method(target, method, arguments)
    if result is None:
        raise _unknown(f"{target.type}", method, types)
    return result


def _unknown(owner: str, method: str, types: list[JavaType]) -> ConfigError:
    return ConfigError(
        f"Groovy's {owner}.{method}({', '.join(types)}) is not supported here",
        hint="docs/sharding.md lists what is",
    )


def _number_method(target: core.Typed, method: str, arguments: list[core.Typed]) -> core.Typed | None:
    if not arguments:
        if method == "abs":
            return core.apply1(target.type, math.kept(target.type, math.absolute), target)
        return core.convert(target, _NUMBER_TO[method]) if method in _NUMBER_TO else None
    if len(arguments) != 1 or arguments[0].type not in NUMBERS:
        return None
    if method in _OPERATORS:
        return core.arithmetic(_OPERATORS[method], target, arguments[0])
    both_whole = target.type in INTEGERS and arguments[0].type in INTEGERS
    if method == "intdiv" and both_whole:
        kind = max(target.type, arguments[0].type, key=NUMBERS.index)
        return core.apply2(kind, math.kept(kind, math.quotient), target, arguments[0])
    return None


_TEXT_METHODS: dict[tuple[str, tuple[JavaType, ...]], tuple[JavaType, Callable[..., Any]]] = {
    ("length", ()): (_INT, len),
    ("size", ()): (_INT, len),
    ("isEmpty", ()): (_BOOLEAN, lambda text: not text),
    ("substring", (_INT,)): (_TEXT, math.substring),
    ("substring", (_INT, _INT)): (_TEXT, math.substring),
    ("padLeft", (_INT,)): (_TEXT, lambda text, width: math.pad(text, width, " ", True)),
    ("padLeft", (_INT, _TEXT)): (_TEXT, lambda text, width, padding: math.pad(text, width, padding, True)),
    ("padRight", (_INT,)): (_TEXT, lambda text, width: math.pad(text, width, " ", False)),
    ("padRight", (_INT, _TEXT)): (_TEXT, lambda text, width, padding: math.pad(text, width, padding, False)),
    ("toInteger", ()): (_INT, lambda text: parse_int(text.strip(_BLANKS))),
    ("toLong", ()): (_LONG, lambda text: parse_long(text.strip(_BLANKS))),
    ("toBigInteger", ()): (_BIG, lambda text: parse_big_integer(text.strip(_BLANKS))),
    ("trim", ()): (_TEXT, lambda text: text.strip(_BLANKS)),
    ("toUpperCase", ()): (_TEXT, lambda text: _ascii(text).upper()),
    ("toLowerCase", ()): (_TEXT, lambda text: _ascii(text).lower()),
    ("reverse", ()): (_TEXT, math.reverse),
    ("concat", (_TEXT,)): (_TEXT, lambda text, other: text + other),
    ("replace", (_TEXT, _TEXT)): (_TEXT, lambda text, old, new: text.replace(old, new)),
    ("startsWith", (_TEXT,)): (_BOOLEAN, lambda text, other: text.startswith(other)),
    ("endsWith", (_TEXT,)): (_BOOLEAN, lambda text, other: text.endswith(other)),
    ("contains", (_TEXT,)): (_BOOLEAN, lambda text, other: other in text),
    ("equals", (_TEXT,)): (_BOOLEAN, lambda text, other: text == other),
    ("indexOf", (_TEXT,)): (_INT, lambda text, other: text.find(other)),
    ("lastIndexOf", (_TEXT,)): (_INT, lambda text, other: text.rfind(other)),
}


def _ascii(text: str) -> str:
    if not text.isascii():
        raise JavaError("upper and lower case of text that is not ASCII")
    return text


def _text_method(target: core.Typed, method: str, arguments: list[core.Typed]) -> core.Typed | None:
    found = _TEXT_METHODS.get((method, tuple(each.type for each in arguments)))
    if found is None:
        return None
    type_, function = found
    return _apply(type_, function, [target, *arguments])


def _apply(type_: JavaType, function: Callable[..., Any], operands: list[core.Typed]) -> core.Typed:
    if len(operands) == 1:
        return core.apply1(type_, function, operands[0])
    if len(operands) == 2:
        return core.apply2(type_, function, operands[0], operands[1])
    runs = [operand.run for operand in operands]
    return core.Typed(type_, lambda value: function(*[run(value) for run in runs]))


def static_call(owner: str, method: str, arguments: list[core.Typed]) -> core.Typed:
    """`Math.abs(x)` and the like. Raises ConfigError for what is not known."""
    types = [each.type for each in arguments]
    if owner == "Math" and arguments and set(types) <= {_INT, _LONG}:
        result = _math(method, arguments)
    elif owner == "String":
        result = _string(method, arguments)
    else:
        result = _parse(owner, method, arguments)
    if result is None:
        raise _unknown(owner, method, types)
    return result


_MATH2: dict[str, Callable[..., int]] = {
    "floorMod": math.floor_mod,
    "floorDiv": math.floor_div,
    "max": max,
    "min": min,
}


def _math(method: str, arguments: list[core.Typed]) -> core.Typed | None:
    kind = _LONG if any(each.type is _LONG for each in arguments) else _INT
    if method == "abs" and len(arguments) == 1:
        return core.apply1(kind, math.kept(kind, abs), arguments[0])
    if method in _MATH2 and len(arguments) == 2:
        if method == "floorMod" and arguments[1].type is _INT:
            kind = _INT  # Java 9 and later: floorMod(long, int) is an int
        return core.apply2(kind, math.kept(kind, _MATH2[method]), arguments[0], arguments[1])
    return None


def _parse(owner: str, method: str, arguments: list[core.Typed]) -> core.Typed | None:
    if len(arguments) != 1 or owner not in ("Long", "Integer"):
        return None
    operand, kind = arguments[0], _LONG if owner == "Long" else _INT
    if operand.type is _TEXT and method in ("valueOf", "parseLong" if kind is _LONG else "parseInt"):
        return core.apply1(kind, parse_long if kind is _LONG else parse_int, operand)
    fits = operand.type is kind or (kind is _LONG and operand.type is _INT)
    if not fits:
        return None
    if method == "valueOf":
        return core.convert(operand, kind)
    if method == "toString":
        return core.as_text(operand)
    if method == "hashCode":
        return core.apply1(_INT, HASHES[kind], operand)
    return None


_FORMAT = re.compile(r"([^%]*)%(?:(0?)([1-9]\d?))?([ds])([^%]*)")


def _string(method: str, arguments: list[core.Typed]) -> core.Typed | None:
    if method == "valueOf" and len(arguments) == 1:
        return core.as_text(arguments[0])
    if method != "format" or len(arguments) != 2:
        return None
    pattern, operand = arguments
    match = _FORMAT.fullmatch(pattern.value) if pattern.constant and pattern.type is _TEXT else None
    if match is None:
        raise ConfigError("String.format is supported with one constant pattern like '%d', '%02d' or '%s'")
    before, zero, digits, letter, after = match.groups(default="")
    width = int(digits or 0)
    if letter == "s" and not zero:
        text = core.as_text(operand)
        return core.apply1(_TEXT, lambda value: before + value.rjust(width) + after, text)
    if letter == "d" and operand.type in INTEGERS:
        kind = f"{zero}{width or ''}d"
        return core.apply1(_TEXT, lambda value: f"{before}{value:{kind}}{after}", operand)
    return None
