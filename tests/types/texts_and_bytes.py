"""Text in every character set, and bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.types.case import BOTH, MARIADB, MYSQL, Case, bytes_case, full, text_case, values


def decoded_strings() -> Iterator[Case]:
    plain = ("'two  '", "'  '", "'tab\\tquote''\"\\\\back\\nline%s%%'", "'\\0\\Z'")
    wide = (*plain, "'äöü €'", "'中文'")
    emoji = (*wide, "'🎁'", "'a🎁'")
    for length in (1, 63, 64, 127, 128, 191, 192, 255):  # 252, 256, 508, 512, 764, 768, 1020 bytes
        odd = (*(emoji if length > 30 else ()), f"REPEAT('x', {length})")
        type_ = f"CHAR({length}) CHARACTER SET utf8mb4"
        yield text_case(f"CHAR({length})", type_, full(*odd, full="'🎁'", length=length))
    for length in (85, 86, 255):
        type_ = f"CHAR({length}) CHARACTER SET utf8mb3"
        yield text_case(f"CHAR({length}) utf8mb3", type_, full(*wide, full="'€'", length=length))
    yield text_case("CHAR(0)", "CHAR(0)", values(empty="''"))
    yield text_case("CHAR(255) ascii", "CHAR(255) CHARACTER SET ascii", full(*plain, full="'x'", length=255))
    for length, charset in ((255, "ascii"), (256, "ascii"), (63, "utf8mb4"), (64, "utf8mb4"), (85, "utf8mb3")):
        widest = {"ascii": "'~'", "utf8mb3": "'€'", "utf8mb4": "'🎁'"}[charset]
        name, type_ = f"VARCHAR({length}) {charset}", f"VARCHAR({length}) CHARACTER SET {charset}"
        yield text_case(name, type_, full(*plain, full=widest, length=length))
    type_ = "VARCHAR(16000) CHARACTER SET utf8mb4"
    yield text_case("VARCHAR(16000)", type_, full(*emoji, full="'🎁'", length=16000))
    collations = {
        "utf8mb4_bin": BOTH,
        "utf8mb4_unicode_ci": BOTH,
        "utf8mb4_0900_ai_ci": MYSQL,
        "utf8mb4_nopad_bin": MARIADB,
    }
    for collation, flavours in collations.items():
        type_ = f"VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {collation}"
        yield text_case(f"VARCHAR in {collation}", type_, full(*emoji, full="'é'", length=20), flavours)
    for type_, length in (("TINYTEXT", 63), ("TEXT", 16383), ("MEDIUMTEXT", 20000), ("LONGTEXT", 20000)):
        yield text_case(type_, f"{type_} CHARACTER SET utf8mb4", full(*emoji, full="'🎁'", length=length))
    yield text_case("TEXT utf8mb3", "TEXT CHARACTER SET utf8mb3", full(*wide, full="'€'", length=21845))


def other_charsets() -> Iterator[Case]:
    samples = {
        "latin1": "äöü €",
        "gbk": "中文誠",  # its second byte is a backslash, as in big5's 許 and sjis's ソ
        "gb2312": "中文",
        "gb18030": "中文🎁",
        "big5": "中文許功蓋",
        "sjis": "日本ｱソ表",
        "cp932": "日本①ソ",
        "ujis": "日本",
        "eucjpms": "日本①",
        "euckr": "한국",
        "koi8r": "привет",
        "cp1251": "привет",
        "ucs2": "中 文",
        "utf16": "中🎁",
        "utf16le": "中🎁",
        "utf32": "中🎁",
    }
    for charset, sample in samples.items():
        flavours = MYSQL if charset == "gb18030" else BOTH
        for type_ in ("CHAR(100)", "VARCHAR(100)", "TEXT"):
            given = full(
                "'two  '", "'%s\\\\'", f"CONVERT('{sample}' USING {charset})", full=f"'{sample[0]}'", length=100
            )
            yield bytes_case(f"{type_} {charset}", f"{type_} CHARACTER SET {charset}", given, flavours)
    single = {
        "latin2": "őű", "latin5": "ğş", "latin7": "āž", "greek": "Ωμ", "hebrew": "שלום", "tis620": "ไทย", "koi8u": "їґ",
        "cp1250": "őű", "cp1256": "سلام", "cp1257": "āž", "cp850": "éß", "cp852": "őű", "cp866": "привет", "dec8": "éß",
        "hp8": "éß", "keybcs2": "čř", "macce": "őű", "macroman": "éß", "swe7": "åä", "armscii8": "Ա", "geostd8": "ა",
    }  # fmt: skip
    for charset, sample in single.items():
        given = full("'two  '", f"CONVERT('{sample}' USING {charset})", full="'a'", length=30)
        yield bytes_case(f"VARCHAR(30) {charset}", f"VARCHAR(30) CHARACTER SET {charset}", given)
    every = "".join(f"{byte:02X}" for byte in range(256))
    given = full(f"CONVERT(0x{every} USING latin1)", full="'ÿ'", length=300)
    yield bytes_case("every byte in latin1", "VARCHAR(300) CHARACTER SET latin1", given)


def binaries() -> Iterator[Case]:
    odd = ("'a  '", "0x6100", "0x612000", "0x0061", "0xFF80", "0x20", "0x5C27", "'%s'")
    yield bytes_case("BINARY(0)", "BINARY(0)", values(empty="''"))
    yield bytes_case("BINARY(1)", "BINARY(1)", values("0x20", minimum="'a'", maximum="0xFF", zero="0x00", empty="''"))
    for type_, lengths in (("BINARY", (5, 16, 255)), ("VARBINARY", (5, 255, 256, 60000))):
        for length in lengths:
            given = values(*odd, minimum="'a'", maximum=f"REPEAT(0xFF, {length})", zero="0x00", empty="''")
            yield bytes_case(f"{type_}({length})", f"{type_}({length})", given)
    for type_, length in (("TINYBLOB", 255), ("BLOB", 65535), ("MEDIUMBLOB", 70000), ("LONGBLOB", 70000)):
        given = values(*odd, minimum="'a'", maximum=f"REPEAT(0x00FF, {length // 2})", zero="0x00", empty="''")
        yield bytes_case(type_, type_, given)
