-- The update-time filter (tables[].update_time): keys of which a change was skipped, as their row here was newer, until
-- they are refreshed; and up to where in its source's log the changes of a copied table are filtered.

CREATE TABLE _migrate_outdated (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  place VARCHAR(64) NOT NULL COMMENT 'physical table in this database',
  key_hash BINARY(32) NOT NULL COMMENT 'SHA-256 of the key as the server compares it',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  table_schema VARCHAR(64) NOT NULL COMMENT 'of the source table',
  table_name VARCHAR(64) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL COMMENT 'coordinate of the last change that was skipped',
  skipped DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, place, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE _migrate_copy_end (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL COMMENT 'of the source table',
  table_name VARCHAR(64) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL COMMENT 'where the log of the source ended once the last chunk of the copy was done',
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
