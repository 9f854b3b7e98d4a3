"""What a server is answered that asks for the password itself, or for it encrypted with a key that it sends.

Over TLS the server has proved who it is. In plain, a password goes to the key that the config pins, and on the
loopback interface to the one that the server sends. The other plug-ins answer a challenge and are the driver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pymysql import _auth

from migrate.mysql.errors import ChannelError

_FAST_DONE, _FULL = 3, 4
"""What the server says of `caching_sha2_password`: it knows the answer; it wants the password itself (MySQL source
documentation, "Caching_sha2_password information")."""
_ASK_SHA256, _ASK_CACHING = b"\x01", b"\x02"

if TYPE_CHECKING:
    _Raw: TypeAlias = Any  # the driver's session, of which its plug-ins use more than its types show
    _Packet: TypeAlias = Any


class Proofs:
    """The plug-ins that may be answered with more than a challenge's answer.

    public_key: the server's, PEM. local: whether the session does not leave this machine.
    """

    def __init__(self, public_key: bytes | None, local: bool) -> None:
        self._key, self._local = public_key, local

    @property
    def handlers(self) -> dict[str, Any]:
        """For the driver: by the plug-in's name, what makes a handler of a session."""
        return {
            "caching_sha2_password": lambda raw: _Sha2(raw, self._key, self._local, _ASK_CACHING),
            "sha256_password": lambda raw: _Sha2(raw, self._key, self._local, _ASK_SHA256),
            "mysql_clear_password": lambda raw: _Itself(raw, "mysql_clear_password"),
            "dialog": lambda raw: _Itself(raw, "dialog"),
            "mysql_old_password": lambda raw: _Itself(raw, "mysql_old_password"),
        }


def _refused(plugin: str, why: str) -> ChannelError:
    return ChannelError(
        f"the server asks for the password by {plugin}, {why}: nothing was sent",
        "check that the address is your server's, and set `tls.mode: verify`; for MySQL in plain, `tls.public_key`"
        " names its RSA key",
    )


def _answered(raw: _Raw, data: bytes) -> _Packet:
    raw.write_packet(data)
    packet = raw._read_packet()
    packet.check_error()
    return packet


class _Itself:
    """A plug-in to which the password itself is sent."""

    def __init__(self, raw: _Raw, plugin: str) -> None:
        self._raw, self._plugin = raw, plugin

    def authenticate(self, _packet: _Packet) -> _Packet:
        """Raises ChannelError where nothing is encrypted, and for what nobody should use any more."""
        if not self._raw._secure or self._plugin == "mysql_old_password":
            raise _refused(self._plugin, "which sends it as it is")
        return _answered(self._raw, self._raw.password + b"\0")


class _Sha2:
    """`caching_sha2_password` and `sha256_password`, one step a call."""

    def __init__(self, raw: _Raw, public_key: bytes | None, local: bool, ask: bytes) -> None:
        self._raw, self._key, self._local, self._ask = raw, public_key, local, ask

    def authenticate(self, packet: _Packet) -> _Packet:
        """The server's next packet. Raises ChannelError for a key that could be anybody's; the driver's error."""
        raw = self._raw
        if packet.is_auth_switch_request():
            raw.salt = packet.read_all().removesuffix(b"\0")
            if self._ask == _ASK_SHA256:
                return self._give(None)
            return _answered(raw, _auth.scramble_caching_sha2(raw.password, raw.salt))
        told = packet.get_all_data()[1:]
        if self._ask == _ASK_SHA256:  # the driver asked for the key when it greeted
            return self._give(told)
        if told[:1] == bytes([_FAST_DONE]):
            return raw._read_packet()
        if told[:1] != bytes([_FULL]):
            raise _refused("caching_sha2_password", "in a way that it does not have")
        return self._give(None)

    def _give(self, sent: bytes | None) -> _Packet:
        """Send the password: over TLS as it is, else encrypted. sent: the key that came unasked."""
        raw = self._raw
        if raw._secure:
            return _answered(raw, raw.password + b"\0")
        key = self._key
        if key is None:
            if not self._local:
                raise _refused("an RSA key of its own", "which could be anybody's")
            key = sent or _answered(raw, self._ask).get_all_data()[1:]
        return _answered(raw, _auth.sha2_rsa_encrypt(raw.password, raw.salt, key))
