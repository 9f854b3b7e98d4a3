-- Version 4: what each publisher had handed to Kafka and was not confirmed at its last flush.

CREATE TABLE IF NOT EXISTS outstanding (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  batches BIGINT UNSIGNED NOT NULL,
  row_count BIGINT UNSIGNED NOT NULL,
  bytes BIGINT UNSIGNED NOT NULL,
  listed MEDIUMTEXT NOT NULL COMMENT 'JSON: the first ones, [id, rows, bytes, where it ends]',
  idle_at DATETIME(6) NULL COMMENT 'when the source was last seen idle with everything delivered',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
