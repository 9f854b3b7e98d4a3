-- Version 19: where a verification stands, so that the next `migrate verify` goes on with one that was killed.

CREATE TABLE IF NOT EXISTS verification_progress (
  verification BIGINT UNSIGNED NOT NULL,
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL COMMENT 'of a group, its first table',
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  done TINYINT NOT NULL COMMENT '1: what was found of it; 0: how far it was compared',
  progress LONGTEXT NOT NULL COMMENT 'JSON',
  PRIMARY KEY (verification, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'verification' AND COLUMN_NAME = 'asked') = 0,
  'ALTER TABLE verification
    ADD COLUMN asked MEDIUMTEXT NULL COMMENT "JSON: tables, rules and settings; NULL: nobody goes on with it",
    ADD COLUMN sources MEDIUMTEXT NULL COMMENT "JSON: where each is read, and where its log ended at the start",
    ADD COLUMN touched DATETIME(6) NULL COMMENT "when its process was last heard of; NULL: it has none",
    ADD COLUMN resumed INT NOT NULL DEFAULT 0 COMMENT "how many processes went on with it"', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
