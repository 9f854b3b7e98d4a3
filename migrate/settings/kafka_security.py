"""Which options of Kafka's client `kafka.security` may have: none that loads a library or names a program."""

from __future__ import annotations

_LOADING = {
    "ssl.engine.location": "loads a library",
    "ssl.providers": "loads a library",
    "sasl.kerberos.kinit.cmd": "is a command of the shell",
}
_OF_TLS = [
    "ca.location",
    "ca.pem",
    "ca.certificate.stores",
    "certificate.location",
    "certificate.pem",
    "key.location",
    "key.pem",
    "key.password",
    "keystore.location",
    "keystore.password",
    "crl.location",
    "cipher.suites",
    "curves.list",
    "sigalgs.list",
    "endpoint.identification.algorithm",
]
_OF_SASL = [
    "mechanism",
    "mechanisms",
    "username",
    "password",
    "kerberos.service.name",
    "kerberos.principal",
    "kerberos.keytab",
    "kerberos.min.time.before.relogin",
    "oauthbearer.method",
    "oauthbearer.client.id",
    "oauthbearer.client.secret",
    "oauthbearer.scope",
    "oauthbearer.extensions",
    "oauthbearer.config",
    "oauthbearer.token.endpoint.url",
]
ALLOWED = frozenset({"security.protocol", *(f"ssl.{name}" for name in _OF_TLS), *(f"sasl.{name}" for name in _OF_SASL)})
"""librdkafka's CONFIGURATION.md."""


def refuse(option: str) -> None:
    """Raises ValueError for an option that is not allowed."""
    if option in _LOADING:
        raise ValueError(f"'{option}' {_LOADING[option]}, which no config file may name")
    if not option.startswith(("security.", "sasl.", "ssl.")):
        raise ValueError(f"'{option}' is not a security.*, sasl.* or ssl.* option")
    if option not in ALLOWED:
        raise ValueError(f"'{option}' is not among the options that are allowed: docs/security.md lists them")
