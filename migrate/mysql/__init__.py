"""What is known about MySQL and MariaDB servers: sessions, catalog, quoting, values, keys, definitions and errors.

Others use `connection.connect`, `connection.Connection`, `catalog.load_table`, `quoting.quote`, `values.from_server`
and `errors.explained`.
"""
