"""Incremental migration of MySQL and MariaDB tables through Kafka and Spark; ARCHITECTURE.md lists the packages.

The programs start at `__main__`.
"""
