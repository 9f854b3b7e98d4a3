"""How a session with a server comes about: TLS, the account's password, and the ways in which it is given to a server.

Every session of the service begins here: queries, the replication stream, the state's pool, Spark's tasks (decision
0045). A server chooses how a password is asked for (MySQL source documentation, "Authentication Phase"). One that
could be anybody, as nothing is encrypted, is given an answer to its challenge, and never the password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pymysql
from pymysql.constants import CR

from migrate.model.address import is_loopback
from migrate.mysql import tls
from migrate.mysql.errors import ChannelError
from migrate.mysql.password import password_of
from migrate.mysql.proofs import Proofs
from migrate.settings import Server

if TYPE_CHECKING:
    Raw: TypeAlias = pymysql.connections.Connection[Any]


def opened(server: Server, **more: Any) -> Raw:
    """A new session of the driver. more: further arguments of the driver's, or others.

    Raises: ConfigError for a file that cannot be used, ServerError of `password_command`; the driver's error, of which
    ChannelError says why the server is not trusted, or that it refused our certificate.
    """
    options = driver_options(server)
    options["password"] = password_of(server)
    try:
        return pymysql.connect(**{**options, **more})
    except ChannelError:
        raise
    except pymysql.OperationalError as error:
        if server.is_encrypted and (told := tls.refused_by_server(error)):
            raise ChannelError(
                f"the server refused the TLS session: {told}",
                "check `tls.certificate` and `tls.key`, and which authority the server accepts (its `ssl_ca`)",
            ) from error
        raise
    except RuntimeError as error:  # a way to prove a password for which a library is missing
        raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_CANNOT_LOAD, str(error)) from error


def driver_options(server: Server) -> dict[str, Any]:
    """PyMySQL's arguments for a server, but the password; made from parts, as a URL could name options that load files.

    Raises: ConfigError for a file of `tls` that cannot be used.
    """
    return {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "charset": "utf8mb4",
        "autocommit": True,
        "local_infile": False,
        "connect_timeout": max(1, int(server.connect_timeout)),
        "read_timeout": server.read_timeout,
        "write_timeout": server.read_timeout,
        "ssl": tls.context(server) if server.is_encrypted else None,
        "ssl_disabled": not server.is_encrypted,
        "auth_plugin_map": Proofs(tls.public_key(server), is_loopback(server.host)).handlers,
    }
