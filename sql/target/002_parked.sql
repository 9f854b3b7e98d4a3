-- Changes that this database refuses and that were set aside by hand. One row for a key at a place: the state the key
-- shall have there; a later change of the key takes its place, or, once it is taken, ends it.

CREATE TABLE _migrate_parked (
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
  ordinal BIGINT UNSIGNED NOT NULL COMMENT 'coordinate of the change',
  row_text LONGTEXT NULL COMMENT 'JSON object of value texts; NULL: the row shall not be there',
  refusal TEXT NOT NULL COMMENT 'what the server said of it, without values',
  reason TEXT NOT NULL COMMENT 'why a person set it aside',
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, place, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
