-- Version 7: tables that were added to a migration whose publisher had begun, and tables that were removed.

CREATE TABLE IF NOT EXISTS membership (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  stage VARCHAR(16) NOT NULL COMMENT 'waiting, joining, joined, removed; a table without a row was there from the beginning',
  incarnation INT NOT NULL DEFAULT 0 COMMENT 'the place from which its changes count, and who wrote that log',
  file VARCHAR(255) NOT NULL DEFAULT '',
  pos BIGINT UNSIGNED NOT NULL DEFAULT 0,
  gtid_set MEDIUMTEXT NOT NULL,
  server_id BIGINT UNSIGNED NOT NULL DEFAULT 0,
  server_uuid VARCHAR(64) NOT NULL DEFAULT '',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
