-- The service's tables in every target database, version 1. They stand beside the rows so that
-- both change in one transaction. Names start with _migrate_.

CREATE TABLE _migrate_fence (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  source VARCHAR(48) NOT NULL,
  epoch BIGINT UNSIGNED NOT NULL COMMENT 'of the partition lease whose holder may write',
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL COMMENT 'highest coordinate applied in this database',
  writes BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'rises with every transaction, so each is marked as ours',
  PRIMARY KEY (migration, topic_id, partition_no, source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE _migrate_chunk_fence (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL COMMENT 'of the source table',
  table_name VARCHAR(64) NOT NULL,
  chunk INT NOT NULL COMMENT '-1 stands for the whole table: closed when every chunk is',
  low TEXT NULL COMMENT 'JSON list of key texts, exclusive',
  high TEXT NULL COMMENT 'JSON list of key texts, inclusive',
  attempt INT NOT NULL COMMENT 'only this attempt may write',
  closed TINYINT NOT NULL DEFAULT 0,
  writes BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (migration, source, table_schema, table_name, chunk)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE _migrate_ledger (
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
  ordinal BIGINT UNSIGNED NOT NULL COMMENT 'coordinate of the delete',
  was_empty TINYINT NOT NULL COMMENT '1: no row was there; a delayed message comes back for it',
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, place, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
