"""Parser for the part of Groovy's expressions that sharding rules use. It only builds a tree; nothing runs.

Known: numbers and their suffixes, quoted texts without escapes, the column's name, calls, `(type)` and
`as type`, text[index] and text[from..to], arithmetic, shifts, bits, comparisons, `&& || !`, `a ? b : c`.
Precedence is Groovy 4's. Everything else is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from migrate.model.errors import ConfigError
from migrate.sharding.javatypes import JavaType

_TOKEN = re.compile(
    r"""[ \t]*(?:
    (?P<number>0[xX][0-9a-fA-F_]+[LlGgIi]?
      |\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?[A-Za-z]*)
  | (?P<name>[^\W\d]\w*)
  | (?P<text>'[^']*'|"[^"]*")
  | (?P<odd><=>|===|!==|\*\*|\+\+|--|\?\.|\?:|\?\[|=~|->|//|/\*|[-+*/%&|^]=|\.\.\.)
  | (?P<op>>>>|<<|>>|<=|>=|==|!=|&&|\|\||\.\.<|\.\.|[-+*/%()\[\].,?:<>!~&|^])
  | (?P<other>\S)
    )""",
    re.VERBOSE,
)
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>", ">>>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_RELATIONAL = 6
CASTS = {
    "int": JavaType.INTEGER,
    "Integer": JavaType.INTEGER,
    "long": JavaType.LONG,
    "Long": JavaType.LONG,
    "BigInteger": JavaType.BIG_INTEGER,
    "BigDecimal": JavaType.BIG_DECIMAL,
    "String": JavaType.STRING,
}
_SUFFIXES = {"": None, "i": JavaType.INTEGER, "l": JavaType.LONG, "g": JavaType.BIG_INTEGER}
_KEYWORDS = frozenset(
    """
    abstract as assert boolean break byte case catch char class const continue def default do double else
    enum extends false final finally float for goto if implements import in instanceof int interface long
    native new null package private protected public return short static strictfp super switch synchronized
    this threadsafe throw throws trait transient true try var void volatile while yield
    """.split()  # noqa: SIM905 - a list of quoted words would be a page long
)
_LONGEST = 1000  # characters; keeps the parser's recursion shallow
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Constant:
    type: JavaType
    value: int | str | Decimal


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Ternary:
    condition: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class Call:
    target: Node
    method: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Property:
    target: Node
    name: str


@dataclass(frozen=True, slots=True)
class Cast:
    type: JavaType
    operand: Node


@dataclass(frozen=True, slots=True)
class Index:
    target: Node
    first: Node
    last: Node | None  # None: one character, else both ends belong to the piece


Node = Constant | Name | Unary | Binary | Ternary | Call | Property | Cast | Index


def parse(source: str) -> Node:
    """The tree of one expression. Raises ConfigError naming what is not understood."""
    if len(source) > _LONGEST:
        raise ConfigError(f"a Groovy expression of more than {_LONGEST} characters is refused")
    parser = _Parser(_tokens(source))
    result = parser.ternary()
    parser.end()
    return result


def _tokens(source: str) -> list[tuple[str, str]]:
    if "\n" in source or "\r" in source:
        raise ConfigError("a Groovy expression over several lines is refused")
    result, position = [], 0
    source = source.rstrip(" \t")
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None or match.lastgroup is None:
            raise ConfigError("the Groovy expression is not understood")
        kind, text = match.lastgroup, match[match.lastgroup]
        if kind in ("odd", "other"):
            raise ConfigError(f"Groovy's '{text}' is not supported here")
        if kind == "text" and ("\\" in text or "$" in text):
            raise ConfigError("a quoted text with '\\' or '$' inside a Groovy expression is not supported")
        result.append((kind, text))
        position = match.end()
    return result


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _accept(self, *operators: str) -> str | None:
        kind, text = self._peek()
        if kind == "op" and text in operators:
            self._at += 1
            return text
        return None

    def _expect(self, op: str) -> None:
        if not self._accept(op):
            raise ConfigError(f"the Groovy expression lacks '{op}'" + self._near())

    def _near(self) -> str:
        text = self._peek()[1]
        return f" before '{text}'" if text else " at its end"

    def end(self) -> None:
        if self._peek()[0] != "end":
            raise ConfigError(f"the Groovy expression is not understood from '{self._peek()[1]}' on")

    def ternary(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ConfigError("the Groovy expression is nested too deeply")
        condition = self._binary(0)
        if self._accept("?"):
            yes = self.ternary()
            self._expect(":")
            condition = Ternary(condition, yes, self.ternary())
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while True:
            if level == _RELATIONAL and self._peek() == ("name", "as"):
                self._at += 1
                left = Cast(self._type(), left)
                continue
            op = self._accept(*_LEVELS[level])
            if op is None:
                return left
            left = Binary(op, left, self._binary(level + 1))

    def _type(self) -> JavaType:
        kind, text = self._next()
        if kind != "name" or text not in CASTS:
            known = ", ".join(CASTS)
            raise ConfigError(f"a conversion to '{text}' is not supported here", hint=f"known types: {known}")
        return CASTS[text]

    def _unary(self) -> Node:
        if self._peek()[0] == "op" and self._peek()[1] in ("-", "+", "!", "~"):
            op = self._next()[1]
            self._depth += 1
            if self._depth > _DEEPEST:
                raise ConfigError("the Groovy expression is nested too deeply")
            operand = self._unary()
            self._depth -= 1
            return Unary(op, operand)
        if self._peek() == ("op", "(") and self._peek(1)[1] in CASTS and self._peek(2) == ("op", ")"):
            self._at += 1
            type_ = self._type()
            self._at += 1
            return Cast(type_, self._unary())
        return self._postfix(self._primary())

    def _postfix(self, node: Node) -> Node:
        while True:
            if self._accept("."):
                node = self._member(node)
            elif self._accept("["):
                node = self._index(node)
            else:
                return node

    def _member(self, node: Node) -> Node:
        kind, name = self._next()
        if kind != "name":
            raise ConfigError(f"the Groovy expression is not understood at '.{name}'")
        if not self._accept("("):
            return Property(node, name)
        arguments: list[Node] = []
        while not self._accept(")"):
            if arguments:
                self._expect(",")
            arguments.append(self.ternary())
        return Call(node, name, tuple(arguments))

    def _index(self, node: Node) -> Node:
        first, last = self._binary(7), None
        if self._accept(".."):
            last = self._binary(7)
        self._expect("]")
        return Index(node, first, last)

    def _primary(self) -> Node:
        kind, text = self._next()
        if kind == "number":
            return _number(text)
        if kind == "text":
            return Constant(JavaType.STRING, text[1:-1])
        if kind == "name" and text not in _KEYWORDS:
            return Name(text)
        if kind == "op" and text == "(":
            inner = self.ternary()
            self._expect(")")
            return inner
        if kind == "end":
            raise ConfigError("the Groovy expression ends too early")
        raise ConfigError(f"Groovy's '{text}' is not supported here")


def _number(text: str) -> Constant:
    """Groovy takes the smallest of Integer, Long, BigInteger that holds a whole number."""
    digits = text.replace("_", "").lower()
    if digits.startswith("0x"):
        return _whole(text, int(digits[2:].rstrip("lgi"), 16), digits[-1] if digits[-1] in "lgi" else "")
    match = re.fullmatch(r"(\d+)(\.\d+)?(g|l|i|)", digits)
    if match is None or (match[2] and match[3] not in ("", "g")):
        raise ConfigError(f"the number '{text}' is not supported here", hint="float and double are not exact")
    if match[2]:
        return Constant(JavaType.BIG_DECIMAL, Decimal(match[1] + match[2]))
    if len(match[1]) > 1 and match[1][0] == "0":
        raise ConfigError(f"the number '{text}' is octal in Groovy and refused; write it without the zero")
    return _whole(text, int(match[1]), match[3])


def _whole(text: str, value: int, suffix: str) -> Constant:
    type_ = _SUFFIXES[suffix]
    if type_ is None:
        fits_int, fits_long = value < 1 << 31, value < 1 << 63
        type_ = JavaType.INTEGER if fits_int else JavaType.LONG if fits_long else JavaType.BIG_INTEGER
    limits = {JavaType.INTEGER: 1 << 31, JavaType.LONG: 1 << 63}
    if value in limits.values() or value >= limits.get(type_, value + 1):
        raise ConfigError(f"the number '{text}' is too large here")
    return Constant(type_, value)
