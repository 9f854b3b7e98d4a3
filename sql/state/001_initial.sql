-- The state database of the service, version 1. Applied by `migrate init`, again if it was killed; times are UTC of this server.

CREATE TABLE IF NOT EXISTS migration (
  name VARCHAR(48) NOT NULL PRIMARY KEY,
  config TEXT NOT NULL COMMENT 'the config file as it was at init; secrets stand as ${NAME}',
  drain_asked DATETIME(6) NULL COMMENT 'the consumer merges at once when this moves',
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS topic (
  migration VARCHAR(48) NOT NULL,
  name VARCHAR(249) NOT NULL,
  position INT NOT NULL COMMENT 'in the config; 0 takes every table that is not given to another',
  topic_id VARCHAR(36) NOT NULL,
  partitions INT NOT NULL COMMENT 'a change would route keys differently; refused unless drained',
  PRIMARY KEY (migration, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS schema_history (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  incarnation INT NOT NULL COMMENT 'valid from this coordinate on',
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  definition MEDIUMTEXT NOT NULL COMMENT 'JSON: columns, key, unique keys',
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, table_schema, table_name, incarnation, file_no, tx)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS position (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  address VARCHAR(300) NOT NULL,
  server_id BIGINT UNSIGNED NOT NULL,
  server_uuid VARCHAR(64) NOT NULL,
  replica_id BIGINT UNSIGNED NOT NULL,
  incarnation INT NOT NULL,
  file VARCHAR(255) NOT NULL,
  pos BIGINT UNSIGNED NOT NULL,
  gtid_set TEXT NOT NULL,
  event_time DATETIME(6) NULL COMMENT 'commit time of the last delivered transaction at the source',
  batch BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'last acknowledged batch id; ids only rise',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS lease (
  migration VARCHAR(48) NOT NULL,
  name VARCHAR(80) NOT NULL COMMENT 'publish:SOURCE, partition:N, commit, cleanup, requeue',
  holder VARCHAR(120) NOT NULL,
  epoch BIGINT UNSIGNED NOT NULL,
  expires DATETIME(6) NOT NULL,
  PRIMARY KEY (migration, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS record (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  message_offset BIGINT NOT NULL,
  state TINYINT NOT NULL COMMENT '0 new, 1 consumed, 2 committed',
  source VARCHAR(48) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL COMMENT 'of the last row in the message',
  row_count INT NOT NULL,
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (topic_id, partition_no, message_offset),
  KEY by_state (migration, state, updated)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS consumed (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'end of the consumed prefix; reading goes on here',
  messages BIGINT NOT NULL DEFAULT 0 COMMENT 'consumed since the start',
  row_count BIGINT NOT NULL DEFAULT 0 COMMENT 'row changes in them',
  event_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'commit time at the source of the last change, Unix milliseconds',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS watermark (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  source VARCHAR(48) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (topic_id, partition_no, source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS phase (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  phase VARCHAR(16) NOT NULL COMMENT 'created, copying, copied',
  attempt INT NOT NULL DEFAULT 0,
  rule_hash CHAR(64) NOT NULL DEFAULT '' COMMENT 'of columns, key and sharding; a resumed copy must match',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copy_detail (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  chunk INT NOT NULL,
  low TEXT NULL COMMENT 'JSON list of key texts, exclusive; NULL: from the first key',
  high TEXT NULL COMMENT 'JSON list of key texts, inclusive; NULL: to the last key',
  state VARCHAR(16) NOT NULL COMMENT 'planned, copying, done',
  attempt INT NOT NULL DEFAULT 0,
  rows_read BIGINT NOT NULL DEFAULT 0,
  rows_inserted BIGINT NOT NULL DEFAULT 0,
  rows_present BIGINT NOT NULL DEFAULT 0 COMMENT 'keys that were at the target already; left as they are',
  conflicts BIGINT NOT NULL DEFAULT 0 COMMENT 'left to the stream: another row held a unique value',
  taken_out BIGINT NOT NULL DEFAULT 0 COMMENT 'inserted and taken out again, as the delete ledger says',
  bytes_read BIGINT NOT NULL DEFAULT 0,
  started DATETIME(6) NULL,
  finished DATETIME(6) NULL,
  PRIMARY KEY (migration, source, table_schema, table_name, chunk)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS verification (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  migration VARCHAR(48) NOT NULL,
  started DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  finished DATETIME(6) NULL,
  tables_compared INT NOT NULL DEFAULT 0,
  rows_compared BIGINT NOT NULL DEFAULT 0,
  differences BIGINT NOT NULL DEFAULT 0,
  in_motion BIGINT NOT NULL DEFAULT 0 COMMENT 'keys that kept changing while they were looked at',
  report MEDIUMTEXT NULL COMMENT 'JSON'
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS verification_difference (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  migration VARCHAR(48) NOT NULL,
  verification BIGINT UNSIGNED NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  kind VARCHAR(16) NOT NULL COMMENT 'missing, extra, different, misplaced, duplicated',
  detail TEXT NOT NULL,
  KEY by_run (migration, verification)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS halt (
  migration VARCHAR(48) NOT NULL,
  process VARCHAR(80) NOT NULL COMMENT 'publish:SOURCE, consume, commit, requeue',
  reason TEXT NOT NULL,
  hint TEXT NOT NULL,
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, process)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS oversized (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL,
  operation VARCHAR(8) NOT NULL COMMENT 'INSERT, UPDATE or DELETE',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  message_bytes BIGINT NOT NULL,
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, incarnation, file_no, tx, ordinal)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
