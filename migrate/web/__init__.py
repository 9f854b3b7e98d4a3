"""`migrate web`: the operator's page, the switch for applications, and the status for Prometheus, over HTTP.

Others use `server.serve`.

server      listens, with TLS or on the loopback interface, until it is asked to stop
connection  one request a connection: deadlines, and what is not HTTP
front       one request: its body within limits, its token, and an answer whatever goes wrong
access      whose token may do what
switch      its routes, and the state database asked from threads
latest      one look at a time, given to all who ask
status_reader   the look that page and metrics are made of
metrics     the look as Prometheus reads it
page        the look as people read it
"""

from migrate.web.server import serve as serve
