-- Version 13: the scheduled check: when each chunk was compared last, and what differs now.

CREATE TABLE IF NOT EXISTS check_run (
  migration VARCHAR(48) NOT NULL PRIMARY KEY,
  finished DATETIME(6) NOT NULL,
  milliseconds BIGINT NOT NULL,
  chunks INT NOT NULL,
  rows_compared BIGINT NOT NULL,
  in_motion BIGINT NOT NULL COMMENT 'keys that kept changing, or that the stream did not come to',
  repaired BIGINT NOT NULL COMMENT 'keys that differed, were refreshed, and agree'
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS check_rest (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  low TEXT NULL COMMENT 'JSON list of key texts: the keys above it come next; NULL: those above the copied chunks',
  checked DATETIME(6) NULL COMMENT 'when it last came to the last key',
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS check_difference (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  key_hash BINARY(32) NOT NULL COMMENT 'SHA-256 of key_text',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  kind VARCHAR(16) NOT NULL COMMENT 'missing, extra, different, misplaced, duplicated, twice',
  detail TEXT NOT NULL,
  first_seen DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  last_seen DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, table_schema, table_name, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'copy_detail' AND COLUMN_NAME = 'checked') = 0,
  'ALTER TABLE copy_detail ADD COLUMN checked DATETIME(6) NULL, ADD COLUMN rows_checked BIGINT NOT NULL DEFAULT 0,
    ADD KEY by_check (migration, source, table_schema, table_name, state, checked)', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
