"""Incremental migration of MySQL and MariaDB tables through Kafka and Spark; ARCHITECTURE.md lists the rooms.

The programs start at `__main__`.
"""
