-- What each transaction decided for each key, for `migrate explain`; kept for consume.keep_decisions_seconds.

CREATE TABLE _migrate_decided (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  migration VARCHAR(48) NOT NULL,
  made DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  body MEDIUMBLOB NOT NULL COMMENT 'zlib of a JSON list of lists: place, key, decision, coordinate',
  KEY by_time (migration, made)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
