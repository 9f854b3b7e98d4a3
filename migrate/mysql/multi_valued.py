"""Unique keys on the elements of arrays (MySQL manual, "CREATE INDEX Statement", "Multi-Valued Indexes").

Which row holds a value that another one takes is asked by the expression of the key, and MySQL computes its CAST in
an index alone (error 1235); what MEMBER OF and JSON_OVERLAPS compare is not what the cast makes of an element.
"""

from __future__ import annotations

import re

_UNIQUE = re.compile(r"^ *UNIQUE KEY (`(?:[^`\n]|``)++`) (.*)$", re.MULTILINE)
_LITERAL = re.compile(r"'(?:[^'\\]|\\.?|'')*+(?:'|\Z)|`(?:[^`]|``)++(?:`|\Z)")


def unique_by_elements(statement: str) -> list[str]:
    """The names of such keys, quoted. statement: SHOW CREATE TABLE's."""
    return [name for name, parts in _UNIQUE.findall(statement) if " array)" in _LITERAL.sub("", parts)]
