"""Certificates that the tests make: an authority, and what it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
_PEM = serialization.Encoding.PEM


class Signed(NamedTuple):
    """PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates, whose files are in `directory`. Its own is the file `ca`."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._builder(self._name, self._key, DAY)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.ca = directory / f"{name}.pem"
        self.ca.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def sign(self, name: str, *hosts: str, until: timedelta = DAY) -> Signed:
        """A certificate for host names and addresses. until: from now on; negative: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, until)
        if hosts:
            made = made.add_extension(x509.SubjectAlternativeName([_host(one) for one in hosts]), critical=False)
        files = Signed(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        files.certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(_PEM))
        files.key.touch(mode=0o600)
        plain = serialization.NoEncryption()
        files.key.write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain))
        return files

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, until: timedelta) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + until)
        )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
