"""Reading the Kafka message, Canal's own included: nothing that is not understood becomes a change."""

from __future__ import annotations

import json
import re
from typing import Any

from migrate.model.errors import Code, StopError
from migrate.model.message import CANAL, CASCADE, REFRESH, REQUEUE, Delay, Message, Op, Row

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# what the state's columns hold
_LARGEST = 2**63 - 1
_HIGHEST_INCARNATION = 2**31 - 1
_LONGEST_SOURCE = 48  # characters
_LONGEST_NAME = 64  # characters (MySQL manual, "Identifier Length Limits")


def decode(raw: bytes, where: str, offset: int) -> Message:
    """Parse a message.

    Args: the value; where it stands ("topic [3] @ 17"), for errors; its offset, which orders messages
    that have no `pos`.
    Raises: StopError when it is no flat message: nothing is skipped (invariant unknown-stops).
    """
    try:
        text = raw.decode("utf-8")
        body = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(body, ensure_ascii=False).encode()  # half a character cannot be written anywhere
        return _decode(body, offset)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StopError(
            f"message {where} is not a flat message: {type(error).__name__}: {str(error)[:200]}",
            hint="see docs/messages.md; the partition is not read further until this message is dealt with",
            code=Code.MESSAGE,
            refused_offset=offset,
        ) from None


def senders(raw: bytes) -> frozenset[str]:
    """Who may have sent a message: the source whose publisher did, or REQUEUE; nobody known where it is neither's, or
    no message. Not as exact as `decode`: a message that cannot be read has a sender, too.

    Markers of either are alike: a publisher's name later generations too, and are sent again by REQUEUE as they are,
    where a copy was open. A refresh of REQUEUE's has a number.
    """
    try:
        body = json.loads(raw)
        source, kind = body["pos"]["source"], body["type"]
        requeued = body.get("delay") is not None or (kind == REFRESH and bool(body.get("id")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return frozenset()
    if requeued:
        return frozenset({REQUEUE})
    if kind == REFRESH or not isinstance(source, str):
        return frozenset()
    return frozenset({source, REQUEUE}) if kind == CASCADE else frozenset({source})


def _decode(body: dict[str, Any], offset: int) -> Message:
    data = tuple(_row(row) for row in body.get("data") or ())
    old = body.get("old")
    kind = _short(body["type"], "type", _LONGEST_NAME)
    if old is not None and kind in (Op.UPDATE, CASCADE) and len(old) != len(data):
        raise ValueError("old and data differ in length")
    pos = body.get("pos")
    if pos is None:
        pos = {"source": CANAL, "inc": 0, "file": 0, "tx": offset, "rows": list(range(len(data)))}
    rows = tuple(_number(row, "pos.rows") for row in pos["rows"])
    if len(rows) != len(data):
        raise ValueError("pos.rows and data differ in length")
    delay = body.get("delay")
    return Message(
        database=_short(body["database"] if data else body["database"] or "", "database", _LONGEST_NAME),
        table=_short(body["table"] if data else body["table"] or "", "table", _LONGEST_NAME),  # none of some statements
        type=kind,
        data=data,
        old=tuple(_row(row) for row in old) if old is not None else None,
        source=_short(pos["source"], "pos.source", _LONGEST_SOURCE),
        incarnation=_number(pos["inc"], "pos.inc", _HIGHEST_INCARNATION),
        file=_number(pos["file"], "pos.file"),
        transaction=_number(pos["tx"], "pos.tx"),
        rows=rows,
        pk_names=tuple(_text(name, "pkNames") for name in body.get("pkNames") or ()),
        mysql_type=dict(body.get("mysqlType") or {}),
        layout=_text(body.get("layout") or "", "layout"),
        id=_number(body.get("id") or 0, "id"),
        es=_number(body.get("es") or 0, "es"),
        ts=_number(body.get("ts") or 0, "ts"),
        sql=_text(body.get("sql") or "", "sql"),
        gtid=_text(body.get("gtid") or "", "gtid"),
        is_ddl=bool(body.get("isDdl")),
        delay=_delay(delay) if delay is not None else None,
        standby=bool(pos.get("standby")),
    )


def _delay(delay: dict[str, Any]) -> Delay:
    return Delay(
        _number(delay["tier"], "delay.tier"),
        _number(delay["due"], "delay.due"),
        _text(delay["database"], "delay.database"),
        _text(delay["table"], "delay.table"),
    )


def _row(row: dict[str, Any]) -> Row:
    for name, value in row.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"value of {name} is neither a string nor null")
    return row


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _short(value: Any, name: str, most: int) -> str:
    if len(_text(value, name)) > most:
        raise ValueError(f"{name} is longer than {most} characters")
    return str(value)


def _number(value: Any, name: str, most: int = _LARGEST) -> int:
    """A whole number as it stands: a coordinate that had to be converted is none (invariant unknown-stops)."""
    if type(value) is not int or not 0 <= value <= most:
        raise TypeError(f"{name} is no whole number from 0 to {most}")
    return value
