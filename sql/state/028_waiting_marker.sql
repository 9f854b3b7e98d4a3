-- Version 28: markers of rows that a foreign key changed, while a copy of their table is open: it may still bring such
-- rows as they were. They come back into their partition once it is closed.

CREATE TABLE IF NOT EXISTS waiting_marker (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  digest BINARY(32) NOT NULL COMMENT 'SHA-256 of what it says',
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  message MEDIUMTEXT NOT NULL COMMENT 'as it comes back',
  PRIMARY KEY (migration, topic_id, partition_no, digest)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
