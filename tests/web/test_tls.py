"""TLS, with a certificate of the test's own; without it the loopback interface alone."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import time
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sandbox.ports import HOST, free_port
from tests.failover.support import SLOW
from tests.web.support import GOOD, TOKEN, Ground, request, serving, start

HANDSHAKE_SECONDS = 5


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """`web.tls`: a certificate for localhost that has signed itself, its key, and beside them that key encrypted."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    today, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), today - day, today + day)
    signed = made.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    directory = tmp_path_factory.mktemp("tls")
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (directory / "web.pem").write_bytes(signed.public_bytes(pem))
    (directory / "web.key").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    encrypted = key.private_bytes(pem, form, serialization.BestAvailableEncryption(b"a-passphrase"))
    (directory / "encrypted.key").write_bytes(encrypted)
    return {"certificate": str(directory / "web.pem"), "key": str(directory / "web.key")}


def test_tls_is_served_at_any_address_and_nothing_else_there(
    ground: Ground, tmp_path: Path, certified: dict[str, str]
) -> None:
    """Lost to whoever listens on the network: the token, by which anybody acknowledges."""
    trusting = ssl.create_default_context(cafile=certified["certificate"])
    with serving(ground, tmp_path, trusting=trusting, host="0.0.0.0", token=TOKEN, tls=certified) as web:  # noqa: S104
        assert web.ask() == (200, GOOD)
        assert web.ask(token="wrong")[0] == 401
        with closing(web.connect()) as connection:
            assert isinstance(connection, ssl.SSLSocket)
            assert connection.version() in ("TLSv1.2", "TLSv1.3")
        old = ssl.create_default_context(cafile=certified["certificate"])
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        plain = socket.create_connection((HOST, web.port), SLOW)
        with closing(plain), pytest.raises((ssl.SSLError, ConnectionError)):
            old.wrap_socket(plain, server_hostname="localhost")

        with closing(socket.create_connection((HOST, web.port), SLOW)) as unencrypted:
            unencrypted.sendall(request())
            assert b"HTTP" not in unencrypted.recv(1000)
        began = time.monotonic()
        with closing(socket.create_connection((HOST, web.port), SLOW)) as silent:
            silent.sendall(b"\x16\x03\x01")
            assert silent.recv(1000) == b""
            assert time.monotonic() - began > HANDSHAKE_SECONDS - 1
        assert web.ask() == (200, GOOD)


def test_a_name_of_this_machine_is_served_and_an_address_in_use_is_named(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with serving(ground, tmp_path, host="localhost", token=TOKEN) as web:
        assert web.ask() == (200, GOOD)
        second = start(ground, tmp_path / "second", listen=f"{HOST}:{web.port}", token=TOKEN)
        try:
            assert second.wait(SLOW)
        finally:
            second.kill()
        log = second.log.read_text("utf-8")
        assert (second.returncode, f"web.listen {HOST}:{web.port}" in log, "Traceback" in log) == (4, True, False), log


@pytest.mark.parametrize(
    ("web", "told"),
    [
        ({"listen": "0.0.0.0:8087"}, "web.listen"),
        ({"tls": {"certificate": "/nowhere/web.pem", "key": "/nowhere/web.key"}}, "/nowhere/web.pem"),
        ({"key": "encrypted.key"}, "encrypted.key"),
        ({"key": "web.pem"}, "web.tls"),
    ],
    ids=["no-tls", "no-file", "passphrase", "no-key"],
)
def test_what_cannot_be_served_is_refused_in_one_line(
    ground: Ground, tmp_path: Path, certified: dict[str, str], web: dict[str, str], told: str
) -> None:
    if "key" in web:
        web = {"tls": {**certified, "key": str(Path(certified["key"]).with_name(web["key"]))}}  # type: ignore[dict-item]
    child = start(ground, tmp_path, **{"listen": f"{HOST}:{free_port()}", "token": TOKEN, **web})
    try:
        assert child.wait(SLOW)
    finally:
        child.kill()
    log = child.log.read_text("utf-8")
    assert (child.returncode, told in log, "Traceback" in log) == (2, True, False), log
