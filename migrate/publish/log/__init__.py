"""The source's binlog: connection, packets, positions, GTID sets."""
