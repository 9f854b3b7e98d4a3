"""Turns the codecs of a table's columns into one Python function that decodes a row image.

A function is made for each set of NULL columns seen, so that the usual row is straight code: neighbouring
columns of fixed size are read by one ``struct`` call for each byte order. Past a limit of such functions a
general one, which tests every column, serves the rest.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from migrate.publish.decode.codecs import Codec, joined
from migrate.publish.decode.text import RUNTIME

Image = tuple[str | None, ...]
RowFunction = Callable[[bytes, int], tuple[Image, int]]
_MAX_FUNCTIONS: Final = 64
_CODE: Final = re.compile(r"\d*[a-zA-Z]")


@dataclass(slots=True)
class Source:
    """Source text of a function under construction, and the column each line of it is about."""

    lines: list[str] = field(default_factory=lambda: ["def row(b, o, nulls=0):"])
    columns: list[int | None] = field(default_factory=lambda: [None])
    runtime: dict[str, object] = field(default_factory=dict)
    indent: str = " "

    def add(self, line: str, column: int | None = None) -> None:
        self.lines.append(self.indent + line)
        self.columns.append(column)

    def unpacker(self, layout: str) -> str:
        name = f"U{len(self.runtime)}"
        self.runtime[name] = struct.Struct(layout).unpack_from
        return name


class RowFunctions(dict[bytes, RowFunction]):
    """Functions by NULL bitmap; one that is missing is made.

    Each takes the event body and the offset after the bitmap, and returns the image and the offset after the
    row. They raise ValueError, LookupError or struct.error for what cannot be right, and do not check that
    the row ends inside the body: the caller compares the last offset with the body's length.
    """

    def __init__(self, codecs: Sequence[Codec], nullable: Sequence[bool]) -> None:
        super().__init__()
        self._codecs = codecs
        self._null_bytes = (len(codecs) + 7) // 8
        self._columns_of_line: dict[str, list[int | None]] = {}
        self._allowed = sum(1 << index for index, null in enumerate(nullable) if null)
        self._general: Callable[[bytes, int, int], tuple[Image, int]] | None = None

    def __missing__(self, bitmap: bytes) -> RowFunction:
        if len(bitmap) != self._null_bytes:
            raise ValueError("ends early, in a row's NULL bitmap")
        nulls = int.from_bytes(bitmap, "little") & (1 << len(self._codecs)) - 1
        if wrong := nulls & ~self._allowed:
            raise NullError((wrong & -wrong).bit_length() - 1)
        if len(self) < _MAX_FUNCTIONS:
            function: RowFunction = self._make(nulls)
            self[bitmap] = function
            return function
        if self._general is None:
            self._general = self._make(None)
        general = self._general
        return lambda body, at: general(body, at, nulls)

    def column_of(self, error: BaseException) -> int | None:
        """The column an error of one of these functions is about, if it can be told."""
        if isinstance(error, NullError):
            return error.column
        trace = error.__traceback__
        while trace is not None:
            columns = self._columns_of_line.get(trace.tb_frame.f_code.co_filename)
            if columns is not None:
                return columns[trace.tb_lineno - 1]
            trace = trace.tb_next
        return None

    def _make(self, nulls: int | None) -> Callable[..., tuple[Image, int]]:
        """The function for one set of NULL columns (bits by column), or for any set with None."""
        source = _row_source(self._codecs, nulls, self._allowed)
        name = f"<row decoder {nulls}>"
        self._columns_of_line[name] = source.columns
        namespace = {**RUNTIME, **source.runtime}
        for codec in self._codecs:
            namespace |= codec.runtime
        exec(compile("\n".join(source.lines), name, "exec"), namespace)  # noqa: S102  constants and numbers only
        function: Callable[..., tuple[Image, int]] = namespace["row"]  # type: ignore[assignment]
        return function


class NullError(ValueError):
    """A NULL in a column that is NOT NULL."""

    def __init__(self, column: int) -> None:
        super().__init__("is NULL although it is NOT NULL")
        self.column = column


def _row_source(codecs: Sequence[Codec], nulls: int | None, allowed: int) -> Source:
    source = Source()
    results: list[str] = []
    region: list[int] = []
    for index, codec in enumerate(codecs):
        bit = 1 << index
        if nulls is None and allowed & bit:
            _emit_region(source, codecs, region, results)
            _emit_either(source, codecs, index, results)
        elif nulls is not None and nulls & bit:
            results.append("None")
        else:
            results.append("")
            region.append(index)
            if codec.payload:
                _emit_region(source, codecs, region, results)
    _emit_region(source, codecs, region, results)
    source.add("return (")
    for index, result in enumerate(results):
        source.add(f" {result},", index)
    source.add("), o")
    return source


def _emit_either(source: Source, codecs: Sequence[Codec], index: int, results: list[str]) -> None:
    """A column that may be NULL, in the function for any set of NULL columns."""
    source.add(f"if nulls & {1 << index}: v{index} = None")
    source.add("else:")
    source.indent = "  "
    results.append("")
    _emit_region(source, codecs, [index], results)
    source.add(f"v{index} = {results[index]}", index)
    source.indent = " "
    results[index] = f"v{index}"


def _emit_region(source: Source, codecs: Sequence[Codec], region: list[int], results: list[str]) -> None:
    """Columns that follow each other at known distances, up to and with the length of a variable one."""
    if not region:
        return
    wanted = {index: numbers(index, codecs[index]) for index in region}
    size = unpack_region(source, codecs, region, wanted)
    last = region[-1]
    payload = codecs[last].payload
    if payload:
        source.add(f"n{last} = {_named(joined(codecs[last].codes, big_endian=False), last)}")
        source.add(f"q = o + {size}")
        source.add(f"o = q + n{last}")
    else:
        source.add(f"o += {size}")
    for index in region:
        for line in codecs[index].lines:
            source.add(_named(line, index), index)
        results[index] = _named(codecs[index].value, index)
    if payload:
        source.add(f"v{last} = {results[last]}", last)
        results[last] = f"v{last}"
    region.clear()


def unpack_region(
    source: Source, codecs: Sequence[Codec], region: list[int], wanted: dict[int, list[str]], skip: int = 0
) -> int:
    """Read the numbers of a region, each byte order past what the other one reads. The region's bytes.

    ``wanted`` names the numbers of each column; ``skip`` bytes come before the region, and are counted with it.
    """
    total = skip
    names: dict[bool, list[str]] = {False: [], True: []}
    layouts = {False: f"<{skip}x", True: f">{skip}x"}
    for index in region:
        codec = codecs[index]
        size = struct.calcsize("<" + codec.codes)
        total += size
        names[codec.big_endian] += wanted[index]
        layouts[codec.big_endian] += codec.codes
        layouts[not codec.big_endian] += f"{size}x"
    for big_endian, known in names.items():
        if known:
            source.add(f"{', '.join(known)}, = {source.unpacker(layouts[big_endian])}(b, o)")
    return total


def numbers(index: int, codec: Codec, prefix: str = "c") -> list[str]:
    """The names that a column's numbers have in the source."""
    return [f"{prefix}{index}_{number}" for number in range(len(_CODE.findall(codec.codes)))]


def _named(template: str, index: int) -> str:
    """A codec's template with the names its placeholders have in the function."""

    def name(found: re.Match[str]) -> str:
        if found[1] == "p":
            return "b[q:o]"
        return f"n{index}" if found[1] == "n" else f"{'s' if found[1] == 's' else 'c'}{index}_{found[1]}"

    return re.sub(r"\$(\d+|[nps])", name, template)
