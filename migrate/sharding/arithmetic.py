"""Java's and Groovy's arithmetic on Python numbers: wrapping ints, truncating division, BigDecimal."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
)
from typing import Any

from migrate.sharding.javatypes import JavaError, JavaType, from_units, to_units, unscaled, wrap32, wrap64

_MOST_DIGITS = 2000  # far beyond anything 65 digits and a short expression can make
"""Where exact BigDecimal arithmetic gives up with an error."""


def kept(kind: JavaType, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, its result cut to an int or a long when that is the type."""
    if kind is JavaType.INTEGER:
        return lambda *numbers: wrap32(function(*numbers))
    if kind is JavaType.LONG:
        return lambda *numbers: wrap64(function(*numbers))
    return function


def negate(value: Any) -> Any:
    return _plain(value.copy_negate()) if isinstance(value, Decimal) else -value


def absolute(value: Any) -> Any:
    return value.copy_abs() if isinstance(value, Decimal) else abs(value)


def remainder(left: int, right: int) -> int:
    """Java's %: the sign is the dividend's."""
    if right == 0:
        raise JavaError("division by zero")
    result = abs(left) % abs(right)
    return -result if left < 0 else result


def remainder_by(divisor: int) -> Callable[[int], int]:
    """Java's % by a known positive number."""
    return lambda value: value % divisor if value >= 0 else -(-value % divisor)


def quotient(left: int, right: int) -> int:
    """Java's integer division: towards zero."""
    if right == 0:
        raise JavaError("division by zero")
    result = abs(left) // abs(right)
    return -result if (left < 0) != (right < 0) else result


def floor_mod(left: int, right: int) -> int:
    if right == 0:
        raise JavaError("division by zero")
    return left % right


def floor_div(left: int, right: int) -> int:
    if right == 0:
        raise JavaError("division by zero")
    return left // right


def positive_mod(left: int, right: int) -> int:
    """Groovy's % with a BigInteger: BigInteger.mod, never negative, not Java's remainder."""
    if right <= 0:
        raise JavaError("BigInteger: modulus not positive")
    return left % right


def shift(op: str, kind: JavaType) -> Callable[[int, int], int] | None:
    """The shift for a left operand of that type; Java masks the distance. None: Groovy has none."""
    if kind is JavaType.BIG_INTEGER:
        return None if op == ">>>" else _big_left if op == "<<" else _big_right
    bits = 32 if kind is JavaType.INTEGER else 64
    mask, whole, wrap = bits - 1, (1 << bits) - 1, wrap32 if bits == 32 else wrap64
    if op == "<<":
        return lambda left, right: wrap(left << (right & mask))
    if op == ">>":
        return lambda left, right: left >> (right & mask)
    return lambda left, right: wrap((left & whole) >> (right & mask))


def _big_left(left: int, right: int) -> int:
    if not -_MOST_DIGITS < right < _MOST_DIGITS:
        raise JavaError("the shift is too far")
    return left << right if right >= 0 else left >> -right


def _big_right(left: int, right: int) -> int:
    return _big_left(left, -right)


# BigDecimal ---------------------------------------------------------------------------------------------


def _context(precision: int, *traps: type) -> Context:
    return Context(
        prec=precision,
        rounding=ROUND_HALF_UP,
        Emin=MIN_EMIN,
        Emax=MAX_EMAX,
        traps=[InvalidOperation, DivisionByZero, *traps],
    )


_EXACT = _context(_MOST_DIGITS, Inexact)


def _plain(value: Decimal) -> Decimal:
    """BigDecimal has no negative zero."""
    return value.copy_abs() if value.is_zero() else value


def _exact(function: Callable[[Decimal, Decimal], Decimal]) -> Callable[[Decimal, Decimal], Decimal]:
    def compute(left: Decimal, right: Decimal) -> Decimal:
        try:
            return _plain(function(left, right))
        except Inexact:
            raise JavaError("the number has too many digits") from None

    return compute


def _scale(value: Decimal) -> int:
    return -int(value.as_tuple().exponent)


def _precision(value: Decimal) -> int:
    return len(value.as_tuple().digits)


def _rescaled(value: Decimal, scale: int) -> Decimal:
    return _context(_MOST_DIGITS).quantize(value, Decimal((0, (1,), -scale)))


def divide(left: Decimal, right: Decimal) -> Decimal:
    """Groovy's /: exact where decimals can be; else ten digits more than the operands, and rounded."""
    if right.is_zero():
        raise JavaError("division by zero")
    exact_digits = _precision(left) + -(-10 * _precision(right) // 3)
    try:
        return _plain(_context(exact_digits, Inexact).divide(left, right))
    except Inexact:
        pass
    result = _context(max(_precision(left), _precision(right)) + 10).divide(left, right)
    scale = max(_scale(left), _scale(right), 10)
    return _plain(_rescaled(result, scale) if _scale(result) > scale else result)


def _remainder(left: Decimal, right: Decimal) -> Decimal:
    """BigDecimal.remainder, with the scale Java gives it."""
    if right.is_zero():
        raise JavaError("division by zero")
    scale = max(_scale(left), _scale(right))
    whole, divisor = unscaled(_rescaled(left, scale)), unscaled(_rescaled(right, scale))
    rest, times = remainder(whole, divisor), abs(quotient(whole, divisor))
    wanted = _scale(left) - _scale(right)
    if times:
        stripped = 0
        while stripped > wanted and times % 10 == 0:
            times, stripped = times // 10, stripped - 1
        wanted = max(wanted, stripped)
    return _plain(_rescaled(Decimal(rest).scaleb(-scale, _EXACT), max(_scale(left), wanted + _scale(right))))


DECIMAL: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": _exact(_EXACT.add),
    "-": _exact(_EXACT.subtract),
    "*": _exact(_EXACT.multiply),
    "%": _remainder,
}
WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": remainder,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
SHIFTS = ("<<", ">>", ">>>")
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CONVERSIONS: dict[JavaType, Callable[[Any], Any]] = {
    JavaType.INTEGER: lambda value: wrap32(int(value)),
    JavaType.LONG: lambda value: wrap64(int(value)),
    JavaType.BIG_INTEGER: int,
    JavaType.BIG_DECIMAL: Decimal,
}


# String -------------------------------------------------------------------------------------------------


def substring(text: str, begin: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= begin <= stop <= len(text):
        raise JavaError("a position is outside the text")
    return text[begin:stop]


def _position(text: str, index: int) -> int:
    at = index + len(text) if index < 0 else index
    if not 0 <= at < len(text):
        raise JavaError("a position is outside the text")
    return at


def character(text: str, index: int) -> str:
    """text[index]; negative positions count from the end."""
    return text[_position(text, index)]


def piece(text: str, first: int, last: int) -> str:
    """text[first..last], both ends included; backwards when first lies behind last."""
    begin, end = _position(text, first), _position(text, last)
    if begin <= end:
        return text[begin : end + 1]
    return reverse(text[end : begin + 1])


def reverse(text: str) -> str:
    """Characters beyond the basic plane stay whole."""
    return to_units(from_units(text)[::-1])


def pad(text: str, width: int, padding: str, left: bool) -> str:
    if width <= len(text):
        return text
    if not padding:
        raise JavaError("the padding is empty")
    missing = width - len(text)
    if width > 1000:
        raise JavaError("the padding is too wide")
    filler = (padding * missing)[:missing]
    return filler + text if left else text + filler
