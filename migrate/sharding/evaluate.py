"""Turns a Groovy tree into a function of the column's value, with Groovy's types and Java's arithmetic.

Types are known beforehand, because the column's Java type is, so what Groovy would refuse for every row is
refused when the rule is built. Source: Groovy 4's NumberMath rules, checked against Groovy 4.0.22 as
ShardingSphere 5.5.2 ships it (tests/sharding).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

from migrate.model.errors import ConfigError
from migrate.sharding import arithmetic as math
from migrate.sharding.groovy import Binary, Call, Cast, Constant, Index, Name, Node, Property, Ternary, Unary
from migrate.sharding.javatypes import INTEGERS, NUMBERS, JavaType, to_units
from migrate.sharding.methods import CLASSES, FIELDS, call, static_call
from migrate.sharding.typed import Typed, apply1, apply2, arithmetic, as_text, constant, convert, undefined


def compile_tree(node: Node, columns: Mapping[str, JavaType]) -> Typed:
    """Compile for columns of these names and Java types: of one, the function takes its value; of several, a tuple.

    Raises ConfigError naming what does not work.
    """
    compiler = _Compiler(columns)
    try:
        return compiler.visit(node)
    except (ValueError, ArithmeticError) as error:  # a constant part that cannot be computed
        raise ConfigError(f"the Groovy expression fails for every row: {error}") from None


class _Compiler:
    def __init__(self, columns: Mapping[str, JavaType]) -> None:
        self._columns = columns

    def visit(self, node: Node) -> Typed:
        match node:
            case Constant(type_, value):
                return constant(type_, to_units(value) if isinstance(value, str) else value)
            case Name(name):
                return self._name(name)
            case Unary(op, operand):
                return _unary(op, self.visit(operand))
            case Binary(op, left, right):
                return _binary(op, self.visit(left), self.visit(right))
            case Ternary(condition, yes, no):
                return self._ternary(self.visit(condition), self.visit(yes), self.visit(no))
            case Cast(type_, operand):
                return self._cast(type_, operand)
            case Index(target, first, last):
                return self._index(self.visit(target), first, last)
            case Property(Name(name), member):
                return self._static_field(name, member)
            case Property(_, member):
                raise ConfigError(f"Groovy's property '.{member}' is not supported here")
            case Call(Name(name), method, arguments) if name in CLASSES:
                return static_call(name, method, [self.visit(each) for each in arguments])
            case Call(target, method, arguments):
                return call(self.visit(target), method, [self.visit(each) for each in arguments])

    def _name(self, name: str) -> Typed:
        columns = [*self._columns]
        if name not in self._columns:
            which = f"the sharding column '{columns[0]}'" if len(columns) == 1 else f"one of {', '.join(columns)}"
            raise ConfigError(
                f"'{name}' is not {which} as the rule spells it",
                hint="Groovy tells upper from lower case, and an expression sees its own columns only",
            )
        if len(columns) == 1:
            return Typed(self._columns[name], lambda value: value, variable=True)
        return Typed(self._columns[name], operator.itemgetter(columns.index(name)))

    @staticmethod
    def _static_field(name: str, member: str) -> Typed:
        field = FIELDS.get((name, member))
        if field is None:
            raise ConfigError(f"Groovy's '{name}.{member}' is not supported here")
        return constant(*field)

    def _cast(self, type_: JavaType, operand: Node) -> Typed:
        inner = self.visit(operand)
        if inner.type is JavaType.STRING and type_ in INTEGERS:
            raise ConfigError(
                f"a conversion of a String to {type_} by a cast is not supported here",
                hint="use Long.parseLong(x), Integer.parseInt(x) or x.toBigInteger()",
            )
        return convert(inner, type_)

    @staticmethod
    def _ternary(condition: Typed, yes: Typed, no: Typed) -> Typed:
        if condition.type is not JavaType.BOOLEAN:
            raise ConfigError(f"a {condition.type} as a condition is not supported here", hint="compare it")
        if yes.type is not no.type:
            raise ConfigError(
                f"'? :' with a {yes.type} and a {no.type} is not supported here",
                hint="give both sides one type",
            )
        test, first, second = condition.run, yes.run, no.run
        return Typed(yes.type, lambda value: first(value) if test(value) else second(value))

    def _index(self, target: Typed, first: Node, last: Node | None) -> Typed:
        begin = self.visit(first)
        end = begin if last is None else self.visit(last)
        if target.type is not JavaType.STRING or {begin.type, end.type} != {JavaType.INTEGER}:
            raise ConfigError("'[...]' is supported on a String with Integer positions only")
        text, low, high = target.run, begin.run, end.run
        if last is None:
            return apply2(JavaType.STRING, math.character, target, begin)
        return Typed(JavaType.STRING, lambda value: math.piece(text(value), low(value), high(value)))


def _unary(op: str, operand: Typed) -> Typed:
    kind = operand.type
    if op == "!" and kind is JavaType.BOOLEAN:
        return apply1(kind, operator.not_, operand)
    if op == "+" and kind in NUMBERS:
        return operand
    if op == "-" and kind in NUMBERS:
        return apply1(kind, math.kept(kind, math.negate), operand)
    if op == "~" and kind in INTEGERS:
        return apply1(kind, operator.invert, operand)
    raise ConfigError(f"Groovy's {op} on a {kind} is not supported here")


def _binary(op: str, left: Typed, right: Typed) -> Typed:
    kinds = (left.type, right.type)
    if op in ("&&", "||"):
        if kinds != (JavaType.BOOLEAN, JavaType.BOOLEAN):
            raise undefined(left, op, right)
        first, second = left.run, right.run
        if op == "&&":
            return Typed(JavaType.BOOLEAN, lambda value: first(value) and second(value))
        return Typed(JavaType.BOOLEAN, lambda value: first(value) or second(value))
    if op == "+" and JavaType.STRING in kinds:
        return apply2(JavaType.STRING, operator.add, as_text(left), as_text(right))
    if op in math.COMPARISONS:
        if not (left.type in NUMBERS and right.type in NUMBERS) and set(kinds) != {JavaType.STRING}:
            raise undefined(left, op, right)
        return apply2(JavaType.BOOLEAN, math.COMPARISONS[op], left, right)
    if left.type not in NUMBERS or right.type not in NUMBERS:
        raise undefined(left, op, right)
    return arithmetic(op, left, right)
