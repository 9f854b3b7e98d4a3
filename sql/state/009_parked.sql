-- Version 9: changes that a person has decided to set aside, and a request to try at once what stands still.

CREATE TABLE IF NOT EXISTS skip_request (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  key_hash BINARY(32) NOT NULL COMMENT 'SHA-256 of key_text',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  reason TEXT NOT NULL,
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, table_schema, table_name, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'migration' AND COLUMN_NAME = 'retry_asked') = 0,
  'ALTER TABLE migration ADD COLUMN retry_asked DATETIME(6) NULL', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
