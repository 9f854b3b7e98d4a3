"""What a server's certificate is checked against, and what of ours it is shown."""

from __future__ import annotations

import ssl
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import pymysql

from migrate.model.errors import ConfigError
from migrate.mysql.errors import ChannelError
from migrate.settings import CarriedTls, Server, Tls

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_TRUST = (
    "nothing was sent; `tls.ca` names the file of the authority that signed it, `tls.server_name` the name in it where"
    " that is not the host's"
)


class _Context(ssl.SSLContext):
    """Checks the certificate, and another name than the host's where one is set."""

    server_name: str | None = None

    def wrap_socket(self, sock: Any, *args: Any, **more: Any) -> ssl.SSLSocket:
        """Raises ChannelError with what is wrong with the certificate or the versions; OSError of the connection."""
        try:
            return super().wrap_socket(
                sock, *args, **{**more, "server_hostname": self.server_name or more["server_hostname"]}
            )
        except ssl.SSLCertVerificationError as error:
            raise ChannelError(f"the server's certificate is not accepted: {error.verify_message}", _TRUST) from error
        except ssl.SSLError as error:
            raise ChannelError(
                f"no TLS session with the server: {_words(error)}",
                "check which versions of TLS the server has, and `tls.minimum_version`",
            ) from error


def context(server: Server) -> ssl.SSLContext:
    """For sessions with this server, which is encrypted; the same one while its files are the same.

    Raises: ConfigError, with the file that cannot be used.
    """
    return _context(server.tls, tuple(_state(path) for path in server.tls.files.values()))


def public_key(server: Server) -> bytes | None:
    """The server's RSA key, PEM, where one is pinned. Raises ConfigError."""
    path = server.tls.public_key
    return None if path is None else _content(server.tls, "public_key")


def carried(tls: Tls) -> Tls:
    """With the contents of its files, itself where it names none. Raises ConfigError."""
    if isinstance(tls, CarriedTls) or not tls.files:
        return tls
    contents = tuple((name, _content(tls, name)) for name in tls.files)
    return CarriedTls.model_construct(**dict(tls), contents=contents)


def refused_by_server(error: pymysql.OperationalError) -> str:
    """What the server's TLS said before it closed the session, as for a certificate of ours; "" of other errors."""
    cause = error.__context__
    return _words(cause) if isinstance(cause, ssl.SSLError) else ""


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def _state(path: Path) -> tuple[int, int]:
    """What changes when a file is replaced."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=64)
def _context(tls: Tls, _files: tuple[tuple[int, int], ...]) -> ssl.SSLContext:
    made = _Context(ssl.PROTOCOL_TLS_CLIENT)  # which checks the certificate and the name
    made.minimum_version = _VERSIONS[tls.minimum_version]
    made.server_name = tls.server_name
    if tls.ca is None:
        made.load_default_certs()
    else:
        _used(tls, "ca", lambda: made.load_verify_locations(cadata=_content(tls, "ca").decode("ascii")))
    if tls.certificate is not None:
        _used(tls, "certificate", lambda: _show(made, tls))
    return made


def _show(made: ssl.SSLContext, tls: Tls) -> None:
    """Have it show our certificate; the library reads it from files alone."""
    with tempfile.TemporaryDirectory(prefix="migrate-") as directory:  # 0700
        certificate, key = Path(directory) / "certificate", Path(directory) / "key"
        for path in (certificate, key):
            path.write_bytes(_content(tls, path.name))
        made.load_cert_chain(certificate, key, password=_no_passphrase)


def _no_passphrase() -> str:
    """Instead of a question at the terminal."""
    raise ValueError("it has a passphrase")


def _used(tls: Tls, name: str, use: Any) -> None:
    try:
        use()
    except (OSError, ValueError) as error:  # ssl.SSLError is one
        told = _words(error) if isinstance(error, ssl.SSLError) else str(error)
        raise ConfigError(
            f"tls.{name}: {getattr(tls, name)} cannot be used: {told}",
            hint="name PEM files; the key without a passphrase",
        ) from None


def _content(tls: Tls, name: str) -> bytes:
    if isinstance(tls, CarriedTls):
        return dict(tls.contents)[name]
    path = tls.files[name]
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"tls.{name}: cannot read {path}: {error.strerror}", hint="name a PEM file") from None
