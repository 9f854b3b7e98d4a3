-- Version 26: how far each target database had each partition when that was last written, so that one that comes back
-- with less is found (invariant fence-compares); and which were found.

CREATE TABLE IF NOT EXISTS reached (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  target VARCHAR(48) NOT NULL,
  database_name VARCHAR(64) NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'the database has what it gets of the messages before',
  PRIMARY KEY (topic_id, partition_no, target, database_name),
  KEY of_migration (migration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS lost_writes (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  migration VARCHAR(48) NOT NULL,
  target VARCHAR(48) NOT NULL,
  database_name VARCHAR(64) NOT NULL,
  what VARCHAR(512) NOT NULL COMMENT 'a partition as topic [number], or a table',
  from_offset BIGINT NOT NULL COMMENT 'the first message that the database no longer had; -1 of a table',
  to_offset BIGINT NOT NULL COMMENT 'one past the last',
  kept_from BIGINT NOT NULL COMMENT 'the first message that is applied again: those before it the broker no longer has',
  found DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  KEY of_migration (migration, found)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
