"""Compiled expressions: a Java type known beforehand, and a function of the column's value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from migrate.model.errors import ConfigError
from migrate.sharding import arithmetic as math
from migrate.sharding.javatypes import NUMBERS, JavaType, to_string

Run = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Typed:
    """A compiled expression: its Java type, and its value for a value of the column."""

    type: JavaType
    run: Run
    constant: bool = False
    variable: bool = False  # `run` is the identity

    @property
    def value(self) -> Any:
        """The value of a constant expression."""
        return self.run(None)


def constant(type_: JavaType, value: Any) -> Typed:
    return Typed(type_, lambda _: value, constant=True)


def apply1(type_: JavaType, function: Callable[[Any], Any], operand: Typed) -> Typed:
    if operand.constant:
        return constant(type_, function(operand.value))
    if operand.variable:
        return Typed(type_, function)
    run = operand.run
    return Typed(type_, lambda value: function(run(value)))


def apply2(type_: JavaType, function: Callable[[Any, Any], Any], left: Typed, right: Typed) -> Typed:
    first, second = left.run, right.run
    if left.constant and right.constant:
        return constant(type_, function(left.value, right.value))
    if right.constant:
        known = right.value
        if left.variable:
            return Typed(type_, lambda value: function(value, known))
        return Typed(type_, lambda value: function(first(value), known))
    return Typed(type_, lambda value: function(first(value), second(value)))


def as_text(operand: Typed) -> Typed:
    """toString(), as Groovy does for a value in a text."""
    if operand.type is JavaType.STRING:
        return operand
    return apply1(JavaType.STRING, to_string(operand.type), operand)


def convert(operand: Typed, to: JavaType) -> Typed:
    """`(int) x` and the like; numbers lose what does not fit, as in Java."""
    if to is operand.type:
        return operand
    if to is JavaType.STRING:
        return as_text(operand)
    if operand.type not in NUMBERS:
        raise ConfigError(f"Groovy cannot convert a {operand.type} to {to} here")
    return apply1(to, math.CONVERSIONS[to], operand)


def wider(left: Typed, right: Typed) -> JavaType:
    return max(left.type, right.type, key=NUMBERS.index)


def undefined(left: Typed, op: str, right: Typed) -> ConfigError:
    return ConfigError(f"Groovy's {left.type} {op} {right.type} is not supported here")


def arithmetic(op: str, left: Typed, right: Typed) -> Typed:
    """`left op right` for two numbers."""
    kind = wider(left, right)
    if op == "/":
        decimal = JavaType.BIG_DECIMAL
        return apply2(decimal, math.divide, convert(left, decimal), convert(right, decimal))
    if kind is JavaType.BIG_DECIMAL:
        if op not in math.DECIMAL:
            raise undefined(left, op, right)
        return apply2(kind, math.DECIMAL[op], convert(left, kind), convert(right, kind))
    if op in math.SHIFTS:
        shift = math.shift(op, left.type)
        if shift is None:
            raise undefined(left, op, right)
        return apply2(left.type, shift, left, right)
    if op == "%" and kind is JavaType.BIG_INTEGER:
        return apply2(kind, math.positive_mod, left, right)
    if op == "%" and right.constant and right.value > 0:
        return apply1(kind, math.remainder_by(right.value), left)
    keeps = op in ("+", "-", "*")  # the others cannot leave the type's range
    return apply2(kind, math.kept(kind, math.WHOLE[op]) if keeps else math.WHOLE[op], left, right)
