-- Version 2: publishers that were sent back by hand.

CREATE TABLE IF NOT EXISTS rewind (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  incarnation INT NOT NULL COMMENT 'that began with it',
  asked TEXT NOT NULL COMMENT 'the place as it was written',
  from_file VARCHAR(255) NOT NULL COMMENT 'the position until then; replayed once the publisher is there again',
  from_pos BIGINT UNSIGNED NOT NULL,
  from_gtid_set MEDIUMTEXT NOT NULL,
  to_file VARCHAR(255) NOT NULL,
  to_pos BIGINT UNSIGNED NOT NULL,
  to_gtid_set MEDIUMTEXT NOT NULL,
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

ALTER TABLE position MODIFY gtid_set MEDIUMTEXT NOT NULL;
