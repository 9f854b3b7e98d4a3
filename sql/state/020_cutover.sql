-- Version 20: cutovers and ways back: the switch that applications read, the runs with their journal, what they hold
-- back at a server, and from which message on changed keys were not compared yet.

CREATE TABLE IF NOT EXISTS application_switch (
  migration VARCHAR(48) NOT NULL PRIMARY KEY,
  version BIGINT UNSIGNED NOT NULL COMMENT 'rises with every change',
  side VARCHAR(8) NOT NULL COMMENT 'source or target: which one applications read and write',
  writes VARCHAR(8) NOT NULL COMMENT 'open, or closed while it is switched',
  changed DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS application (
  migration VARCHAR(48) NOT NULL,
  instance VARCHAR(128) NOT NULL COMMENT 'a name of its own for each process of the application',
  version BIGINT UNSIGNED NOT NULL COMMENT 'of the switch that it goes by: nothing it began under an earlier one is open',
  seen DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, instance)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS cutover (
  migration VARCHAR(48) NOT NULL,
  run INT NOT NULL,
  direction VARCHAR(8) NOT NULL COMMENT 'there: to the targets; back: to the sources',
  outcome VARCHAR(12) NOT NULL COMMENT 'running, switched, done or aborted',
  started DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  finished DATETIME(6) NULL,
  freeze_seconds DOUBLE NULL COMMENT 'for which nobody could write',
  PRIMARY KEY (migration, run)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS cutover_step (
  migration VARCHAR(48) NOT NULL,
  run INT NOT NULL,
  entry INT NOT NULL,
  step VARCHAR(24) NOT NULL,
  stage VARCHAR(8) NOT NULL COMMENT 'begun, done or failed',
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  detail MEDIUMTEXT NULL,
  PRIMARY KEY (migration, run, entry)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS write_block (
  migration VARCHAR(48) NOT NULL,
  side VARCHAR(8) NOT NULL COMMENT 'source or target',
  server VARCHAR(48) NOT NULL,
  method VARCHAR(16) NOT NULL,
  ending MEDIUMTEXT NOT NULL COMMENT 'JSON: statements that give writes back',
  PRIMARY KEY (migration, side, server)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS compared (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'keys that only earlier messages changed are known to be equal',
  PRIMARY KEY (migration, topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'verification' AND COLUMN_NAME = 'consumed') = 0,
  'ALTER TABLE verification
    ADD COLUMN consumed MEDIUMTEXT NULL COMMENT "JSON: topic id, partition and end of its consumed prefix when it began"', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'migration' AND COLUMN_NAME = 'hurry_until') = 0,
  'ALTER TABLE migration
    ADD COLUMN hurry_until DATETIME(6) NULL COMMENT "until then nothing waits to be folded or flushed",
    ADD COLUMN reverse_of VARCHAR(48) NULL COMMENT "the migration that this one is the way back of"',
  'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
