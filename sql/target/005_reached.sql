-- Up to which message this database has each partition (invariant fence-compares). A writer names what it expects here; a
-- lower offset, or another holder, says that this database or the state lost committed transactions.

CREATE TABLE _migrate_reached (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  epoch BIGINT UNSIGNED NOT NULL COMMENT 'of the partition lease whose holder may write',
  holder VARCHAR(120) NOT NULL COMMENT 'of that lease: a state put back to an earlier one gives an epoch twice',
  next_offset BIGINT NOT NULL COMMENT 'what this database gets of the messages before it, it has; -1: nothing yet',
  writes BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (migration, topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
