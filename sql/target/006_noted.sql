-- How many notes the state had of a partition when a transaction here followed them (invariant fence-compares): a state
-- that has fewer lost what no message says again.

CREATE TABLE _migrate_noted (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  notes BIGINT UNSIGNED NOT NULL COMMENT 'as consumed.notes in the state',
  PRIMARY KEY (migration, topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
