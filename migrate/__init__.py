"""Incremental migration of MySQL and MariaDB tables through Kafka and Spark."""
