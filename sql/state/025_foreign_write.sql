-- Version 25: writes at a side while only a stream was to write there, and what a stream had for a side where
-- applications write by then. None of it is carried by itself; each key is listed until both sides were found equal.

CREATE TABLE IF NOT EXISTS foreign_write (
  migration VARCHAR(48) NOT NULL COMMENT 'the stream that reads the side where the write was made',
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  key_hash BINARY(32) NOT NULL COMMENT 'SHA-256 of key_text',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts; empty: too many to list, every row of the table',
  kind VARCHAR(8) NOT NULL COMMENT 'foreign: written while the side was standby; late: came when the other was active',
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL COMMENT 'coordinate of the last such write',
  seen DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) COMMENT 'when the last one was listed',
  PRIMARY KEY (migration, source, table_schema, table_name, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
