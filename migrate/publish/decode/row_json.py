"""Row events straight to the JSON text of their rows: the publisher's fast path.

As ``decode_compile`` makes functions that return a row's texts, this makes functions that write the rows of an event
as the message has them, sorted by partition, without a value in between. What it does not do (more layouts of NULLs
than are worth a function, an update that changes its key, damaged bytes) raises ``UnsuitedError`` or what the decoder
raises; the caller then decodes the event to texts, which does everything and names what is wrong.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Final

from migrate.model.table import Table
from migrate.publish.decode.codecs import Codec, joined
from migrate.publish.decode.compile import Source, numbers, unpack_region
from migrate.publish.decode.text import RUNTIME

Groups = defaultdict[int, list[str | int]]
"""By partition, in order of first use: (row, ordinal) of inserts and deletes, (row, old, ordinal) of updates, flat."""

RowsFunction = Callable[[bytes, int, int, int, Groups], tuple[int, int]]
"""Takes the event's bytes, an offset, their end, the ordinal of the row there, and what to add to; writes rows while
they have its NULL columns, and returns the offset and ordinal it came to."""

_MAX_FUNCTIONS: Final = 64
_UNSAFE: Final = re.compile(r'[^A-Za-z0-9_":,. -]')
_PLAIN_F_STRING: Final = re.compile(r'f"([^"]*)"')
_ONE_NUMBER: Final = re.compile(r'f"\{([^{}:]+)\}"')


class UnsuitedError(Exception):
    """This event takes the general way."""


class JsonRows:
    """Writes the rows of one layout (``decoder.codecs``, in the order of the table's columns)."""

    def __init__(
        self,
        codecs: Sequence[Codec],
        nullable: Sequence[bool],
        table: Table,
        partitions: int,
        hashed: tuple[str, str],
    ) -> None:
        """hashed: the two names that a key's partition is chosen by."""
        names = [column.name for column in table.columns]
        self._codecs = codecs
        self._labels = [_literal(encode_basestring_ascii(name)) for name in names]
        self._key = [names.index(name) for name in table.key]
        self._allowed = sum(1 << index for index, null in enumerate(nullable) if null and index not in self._key)
        self._null_bytes = (len(codecs) + 7) // 8
        self._one_partition = table.one_partition
        self._partitions = partitions
        self._crc = zlib.crc32(f"{hashed[0]}.{hashed[1]}\0".encode())
        self._single: dict[bytes, RowsFunction] = {}
        self._pairs: dict[tuple[bytes, bytes], RowsFunction] = {}
        self._skips: dict[bytes, Callable[[bytes, int], int]] = {}

    def images(self, body: bytes, at: int, ordinal: int) -> tuple[Groups, int]:
        """Rows of inserts and deletes from offset ``at`` on, and the ordinal behind the last one (they rise by 2)."""
        groups: Groups = defaultdict(list)
        end, null_bytes, functions = len(body), self._null_bytes, self._single
        while at < end:
            bitmap = body[at : at + null_bytes]
            function = functions.get(bitmap) or self._make_single(bitmap)
            at, ordinal = function(body, at, end, ordinal, groups)
        if at != end:
            raise UnsuitedError
        return groups, ordinal

    def updates(self, body: bytes, at: int, ordinal: int) -> tuple[Groups, int]:
        """The same of updates: pairs of images."""
        groups: Groups = defaultdict(list)
        end, null_bytes, functions = len(body), self._null_bytes, self._pairs
        while at < end:
            before = after = body[at : at + null_bytes]
            start = at
            function = functions.get((before, after)) or self._make_pair(before, after)
            at, ordinal = function(body, at, end, ordinal, groups)
            if at == start:  # the images differ in what is NULL
                behind = (self._skips.get(before) or self._make_skip(before))(body, at)
                after = body[behind : behind + null_bytes]
                function = functions.get((before, after)) or self._make_pair(before, after)
                at, ordinal = function(body, at, end, ordinal, groups)
                if at == start:
                    raise UnsuitedError
        if at != end:
            raise UnsuitedError
        return groups, ordinal

    # -- making functions

    def _nulls(self, bitmap: bytes) -> int:
        nulls = int.from_bytes(bitmap, "little") & (1 << len(self._codecs)) - 1
        if len(bitmap) != self._null_bytes or nulls & ~self._allowed:
            raise UnsuitedError
        return nulls

    def _make_single(self, bitmap: bytes) -> RowsFunction:
        nulls = self._nulls(bitmap)
        if len(self._single) >= _MAX_FUNCTIONS:
            raise UnsuitedError
        source = Source(["def rows(b, o, end, at, groups):", f" while o < end and {self._same('B', bitmap)}:"])
        source.indent = "  "
        source.runtime["B"] = bitmap
        self._read(source, nulls, "c")
        self._check(source, nulls)
        source.add(f"groups[{self._partition(source)}] += ({self._row(nulls)}, at)")
        source.add("at += 2")
        source.indent = " "
        source.add("return o, at")
        function: RowsFunction = self._compile(source)
        self._single[bitmap] = function
        return function

    def _make_pair(self, before: bytes, after: bytes) -> RowsFunction:
        old, new = self._nulls(before), self._nulls(after)
        if len(self._pairs) >= _MAX_FUNCTIONS:
            raise UnsuitedError
        source = Source(["def rows(b, o, end, at, groups):", f" while o < end and {self._same('B', before)}:"])
        source.indent = "  "
        source.runtime |= {"B": before, "A": after}
        source.add("start = o")
        self._read(source, old, "b")
        source.add(f"if not ({self._same('A', after)}): return start, at")
        self._read(source, new, "c")
        for index in self._key:
            source.add(f"if {self._differs(index)}: raise UnsuitedError")
        source.add("d = ''")
        for index in range(len(self._codecs)):
            if index not in self._key:
                self._compare(source, index, bool(old >> index & 1), bool(new >> index & 1))
        self._check(source, new)
        source.add(f"groups[{self._partition(source)}] += ({self._row(new)}, '{{' + d[1:] + '}}', at)")
        source.add("at += 2")
        source.indent = " "
        source.add("return o, at")
        function: RowsFunction = self._compile(source)
        self._pairs[before, after] = function
        return function

    def _make_skip(self, bitmap: bytes) -> Callable[[bytes, int], int]:
        """A function that finds where an image ends."""
        source = Source(["def rows(b, o):"])
        self._read(source, self._nulls(bitmap), "c")
        source.add("return o")
        skip: Callable[[bytes, int], int] = self._compile(source)
        self._skips[bitmap] = skip
        return skip

    def _compile(self, source: Source) -> Callable[..., Any]:
        namespace = {
            **RUNTIME,
            "QUOTE": encode_basestring,
            "CRC": zlib.crc32,
            "UnsuitedError": UnsuitedError,
            **source.runtime,
        }
        for codec in self._codecs:
            namespace |= codec.runtime
        # constants and numbers, and column names of which `_literal` leaves nothing that Python could take for code
        exec(compile("\n".join(source.lines), "<row writer>", "exec"), namespace)  # noqa: S102
        function: Callable[..., Any] = namespace["rows"]  # type: ignore[assignment]
        return function

    def _same(self, name: str, bitmap: bytes) -> str:
        return f"b[o] == {bitmap[0]}" if len(bitmap) == 1 else f"b[o:o + {len(bitmap)}] == {name}"

    def _read(self, source: Source, nulls: int, prefix: str) -> None:
        """Read an image's numbers and bytes; ``o`` moves from its NULL bitmap to behind it."""
        skip, region = self._null_bytes, list[int]()
        for index, codec in enumerate(self._codecs):
            if nulls >> index & 1:
                continue
            region.append(index)
            if codec.payload:
                self._read_region(source, region, skip, prefix)
                skip, region = 0, []
        self._read_region(source, region, skip, prefix)

    def _read_region(self, source: Source, region: list[int], skip: int, prefix: str) -> None:
        wanted = {index: numbers(index, self._codecs[index], prefix) for index in region}
        size = unpack_region(source, self._codecs, region, wanted, skip)
        if region and self._codecs[region[-1]].payload:
            last = region[-1]
            source.add(f"{prefix}n{last} = {_named(joined(self._codecs[last].codes, big_endian=False), last, prefix)}")
            source.add(f"q = o + {size}")
            source.add(f"o = q + {prefix}n{last}")
            source.add(f"{prefix}p{last} = b[q:o]")
        elif size:
            source.add(f"o += {size}")

    def _check(self, source: Source, nulls: int) -> None:
        """What must come before the values: checks, and numbers put together."""
        for index, codec in enumerate(self._codecs):
            if not nulls >> index & 1:
                for line in codec.lines:
                    source.add(_named(line, index, "c"))

    def _differs(self, index: int) -> str:
        codec = self._codecs[index]
        if codec.payload:
            return f"bp{index} != cp{index}"
        names = zip(numbers(index, codec, "b"), numbers(index, codec, "c"), strict=True)
        if set(codec.codes) & set("fd"):  # 0.0 and -0.0 are equal and have two texts
            return " or ".join(f"repr({before}) != repr({after})" for before, after in names)
        return " or ".join(f"{before} != {after}" for before, after in names)

    def _compare(self, source: Source, index: int, old_null: bool, new_null: bool) -> None:
        """Add a column to the old values ``d`` if it changed."""
        label, codec, indent = self._labels[index], self._codecs[index], source.indent
        if old_null:
            if not new_null:
                source.add(f"d += ',{label}:null'")
            return
        if not new_null:
            source.add(f"if {self._differs(index)}:")
            source.indent += " "
        for line in codec.lines:
            source.add(_named(line, index, "b"))
        if codec.payload and not new_null:  # zeros cut off, or packed in another way: other bytes, one text
            source.add(f"if {_named(codec.value, index, 'b')} != {_named(codec.value, index, 'c')}:")
            source.indent += " "
        source.add(f"d += f',{label}:{self._piece(index, 'b')}'")
        source.indent = indent

    def _row(self, nulls: int) -> str:
        pieces = [
            f"{label}:{'null' if nulls >> index & 1 else self._piece(index, 'c')}"
            for index, label in enumerate(self._labels)
        ]
        return "f'{{" + ",".join(pieces) + "}}'"

    def _piece(self, index: int, prefix: str) -> str:
        """The part of an f-string that is a value in JSON; no ``'`` and no backslash is in a codec's expressions."""
        codec = self._codecs[index]
        value = _named(codec.value, index, prefix)
        if codec.payload:
            return f"{{QUOTE({value})}}"
        return f'"{_inside(value)}"'

    def _partition(self, source: Source) -> str:
        """The expression that is `migrate.model.change.partition_of` of the row."""
        if self._one_partition:
            return f"{self._crc % self._partitions}"
        values = [_named(self._codecs[index].value, index, "c") for index in self._key]
        number = _ONE_NUMBER.fullmatch(values[0])
        if len(values) == 1 and number:
            key = f'b"%d\\0" % ({number[1]})'
        else:
            key = "f'" + "".join(_inside(value) + "\\0" for value in values) + "'.encode('utf-8', 'surrogatepass')"
        return f"CRC({key}, {self._crc}) % {self._partitions}"


def _inside(value: str) -> str:
    """An expression of a text as part of an f-string."""
    found = _PLAIN_F_STRING.fullmatch(value)
    return found[1] if found else f"{{({value})}}"


def _literal(text: str) -> str:
    """Text inside a Python string: what is not plain is written by its number. The text is ASCII."""
    return _UNSAFE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _named(template: str, index: int, prefix: str) -> str:
    """A codec's template with the names its placeholders have here."""

    def name(found: re.Match[str]) -> str:
        return f"{prefix}{found[1]}{index}" if found[1] in "nps" else f"{prefix}{index}_{found[1]}"

    return re.sub(r"\$(\d+|[nps])", name, template)


ERRORS: Final = (UnsuitedError, ValueError, LookupError, ArithmeticError, struct.error)
"""What sends an event the general way."""
