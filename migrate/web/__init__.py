"""`migrate web`: the switch over HTTP, for applications that do not reach the state database.

Others use `server.serve`.

server      listens, with TLS or on the loopback interface, until it is asked to stop
connection  one request a connection: deadlines, and what is not HTTP
front       one request: its body within limits, its token, and an answer whatever goes wrong
access      whose token may do what
metrics     the status as Prometheus reads it
switch      the routes, and the state database asked from threads
"""

from migrate.web.server import serve as serve
