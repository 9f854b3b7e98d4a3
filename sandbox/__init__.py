"""Real MariaDB, MySQL and Kafka servers as child processes, for tests and the demo. Never for production."""
