"""What each process counts about its own work, and the port where Prometheus reads it.

Others use `listening.serving`, `consumer`, `publisher` and `shared`.

shared      what any process may count: leases, retries, commits
consumer    messages, decisions, times and lag of a consumer: counted once a batch
publisher   what a publisher delivered: taken over at each flush, so that its rows and batches cost nothing
weighted    a histogram that takes many values at once
listening   the port, and the file by which Prometheus finds it
"""

from migrate.metrics.listening import serving as serving
