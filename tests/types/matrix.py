"""Every column type of both flavours, with the values that are easily broken on the way.

Values are SQL literals, for a session with ``sql_mode='ALLOW_INVALID_DATES'`` (so that zero dates and index 0
of an ENUM can be stored) and ``time_zone='+00:00'``. NULL goes with every type and is not listed. ``select``
and ``read`` make canonical text of what the server itself prints; ``exact`` is an expression of the server's
that is equal exactly where two stored values are.
"""

from __future__ import annotations

from tests.types.case import LABELS as LABELS
from tests.types.case import Case as Case
from tests.types.case import Value as Value
from tests.types.case import values as values
from tests.types.documents import JSON_EXACT, geometries, of_mariadb, of_mysql
from tests.types.numbers_and_times import bits, decimals, enums_and_sets, floats, integers, temporals
from tests.types.texts_and_bytes import binaries, decoded_strings, other_charsets

CASES: tuple[Case, ...] = (
    *integers(),
    *decimals(),
    *floats(),
    *bits(),
    *temporals(),
    *enums_and_sets(),
    *decoded_strings(),
    *other_charsets(),
    *binaries(),
    *geometries(),
    *of_mariadb(),
    *of_mysql(),
)


def cases_of(flavour: str) -> list[Case]:
    return [case for case in CASES if flavour in case.flavours]


def printed_cases_of(flavour: str) -> list[Case]:
    """Those whose canonical text a SELECT prints; MySQL's JSON has marks of types in it (test_decode_json.py)."""
    return [case for case in cases_of(flavour) if case.exact != JSON_EXACT]
