-- Version 14: what a person asked of the copy's throttle, how far each copy is, and how many rows went to each place.

CREATE TABLE IF NOT EXISTS throttle (
  migration VARCHAR(48) NOT NULL PRIMARY KEY,
  paused SMALLINT NOT NULL DEFAULT 0,
  chunks INT NULL COMMENT 'here and below NULL: as the config says',
  min_chunks INT NULL,
  rows_per_second BIGINT NULL,
  max_threads_running BIGINT NULL,
  max_history_length BIGINT NULL,
  max_replica_lag_seconds DOUBLE NULL,
  changed DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copy_progress (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  rows_read BIGINT NOT NULL COMMENT 'over all runs',
  bytes_read BIGINT NOT NULL,
  rows_estimate BIGINT NOT NULL COMMENT 'by the statistics of the source',
  rows_per_second DOUBLE NOT NULL COMMENT 'during the last minute',
  pace VARCHAR(16) NOT NULL COMMENT 'full, slowed, held, paused, copied',
  chunks INT NOT NULL COMMENT 'that are begun together; 0: none',
  reason TEXT NOT NULL COMMENT 'why not at full pace',
  measured TEXT NOT NULL COMMENT 'JSON list of [server, signal, value]; a value of null is not known',
  updated DATETIME(6) NOT NULL,
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copy_place (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  place VARCHAR(200) NOT NULL COMMENT 'target/database.table',
  rows_read BIGINT NOT NULL COMMENT 'of finished chunks, with those that were there already',
  PRIMARY KEY (migration, source, table_schema, table_name, place)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
