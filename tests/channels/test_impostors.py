"""A hostile server that asks for the password itself, in each way that the protocol has, and gets nothing."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from migrate.model.errors import ServerError
from migrate.mysql.connection import connect
from migrate.settings import Server
from tests.channels.impostor import MORE, SALT, SWITCH, Impostor

PASSWORD = "Canary-4711-secret"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
ELSEWHERE = "0.0.0.0"  # noqa: S104 - an address that is not a loopback one, and leads to this machine
ENDS = b"\xff\x15\x04#28000Access denied"


def switch(plugin: str) -> bytes:
    return SWITCH + plugin.encode() + b"\0" + SALT + b"\0"


def server(impostor: Impostor, host: str = ELSEWHERE, **tls: Any) -> Server:
    where = {"host": host, "port": impostor.port, "user": "migrate", "password": PASSWORD, "connect_timeout": 5}
    return Server.model_validate({**where, "tls": tls})


def refusal(of: Server) -> str:
    with pytest.raises(ServerError) as caught, closing(connect(of, "source 's'")):
        pass
    assert PASSWORD not in str(caught.value)
    return caught.value.message


def encrypted(packet: bytes) -> bytes:
    """What a packet that was encrypted with KEY holds."""
    oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303 - as the protocol has it
    plain = KEY.decrypt(packet, oaep)
    return bytes(byte ^ SALT[at % 20] for at, byte in enumerate(plain))


class Trick(NamedTuple):
    plugin: str  # of the greeting
    script: tuple[bytes, ...]
    said: str
    answers: tuple[bytes, ...] = ()  # that the client gives after its greeting


FAST = b"caching"  # stands for the answer to a challenge
TRICKS = {
    "clear": Trick("mysql_native_password", (switch("mysql_clear_password"), ENDS), "by mysql_clear_password"),
    "dialog": Trick("mysql_native_password", (SWITCH + b"dialog\0\x02Password: ", ENDS), "by dialog"),
    "old": Trick("mysql_native_password", (switch("mysql_old_password"), ENDS), "by mysql_old_password"),
    "caching_full": Trick("caching_sha2_password", (MORE + b"\x04", MORE + PEM, ENDS), "by an RSA key of its own"),
    "caching_switched": Trick(
        "mysql_native_password",
        (switch("caching_sha2_password"), MORE + b"\x04", MORE + PEM, ENDS),
        "by an RSA key of its own",
        (FAST,),
    ),
    "sha256": Trick("sha256_password", (MORE + PEM, ENDS), "by an RSA key of its own"),
    "sha256_switched": Trick(
        "mysql_native_password", (switch("sha256_password"), MORE + PEM, ENDS), "by an RSA key of its own"
    ),
    "unknown": Trick("mysql_native_password", (switch("of_its_own"), ENDS), "of_its_own"),
}


def challenged() -> bytes:
    """The answer of `caching_sha2_password`: SHA256(password) XOR SHA256(SHA256(SHA256(password)), challenge)
    (MySQL source documentation, "Caching_sha2_password information")."""
    once = hashlib.sha256(PASSWORD.encode()).digest()
    again = hashlib.sha256(hashlib.sha256(once).digest() + SALT).digest()
    return bytes(one ^ other for one, other in zip(once, again, strict=True))


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
def test_a_plain_server_that_asks_for_the_password_gets_nothing(trick: Trick) -> None:
    with Impostor(trick.plugin, trick.script) as impostor:
        told = refusal(server(impostor, mode="off"))
        _, *answers = impostor.done()
    assert trick.said in told
    assert answers == [challenged() if one == FAST else one for one in trick.answers]


@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog"])
def test_the_password_itself_goes_to_no_plain_server_on_this_machine_either(plugin: str) -> None:
    with Impostor("mysql_native_password", (SWITCH + plugin.encode() + b"\0\x02Password: ", ENDS)) as impostor:
        assert f"by {plugin}" in refusal(server(impostor, "127.0.0.1"))
        assert len(impostor.done()) == 1


def test_on_the_loopback_interface_the_key_of_mysql_is_asked_for() -> None:
    """As its own client does; documented as the one exception."""
    with Impostor("caching_sha2_password", (MORE + b"\x04", MORE + PEM, ENDS)) as impostor:
        assert "wrong user or password" in refusal(server(impostor, "127.0.0.1"))
        _, asked, given = impostor.done()
    assert asked == b"\x02"
    assert encrypted(given).rstrip(b"\0").startswith(PASSWORD.encode())


@pytest.mark.parametrize("script", [(MORE + b"\x04", ENDS), (MORE + PEM, ENDS)], ids=["caching_sha2", "sha256"])
def test_a_pinned_key_is_the_only_one_that_is_used(tmp_path: Path, script: tuple[bytes, ...]) -> None:
    """Lost to who sends a key of his own: he can read what was encrypted with it."""
    pinned = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    file = tmp_path / "public_key.pem"
    file.write_bytes(pinned.public_key().public_bytes(serialization.Encoding.PEM, form))
    plugin = "caching_sha2_password" if len(script[0]) == 2 else "sha256_password"
    with Impostor(plugin, script) as impostor:
        assert "wrong user or password" in refusal(server(impostor, mode="off", public_key=str(file)))
        _, given = impostor.done()
    with pytest.raises(ValueError, match="ecryption"):
        encrypted(given)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303
    assert len(pinned.decrypt(given, oaep)) == len(PASSWORD) + 1


def test_a_server_that_denies_that_it_has_tls_hears_not_even_the_account() -> None:
    with Impostor("mysql_clear_password", (ENDS,)) as impostor:
        assert "nothing was sent" in refusal(server(impostor))
        assert impostor.done() == []
