-- Version 17: parts of copied tables that are copied again, and tables whose copy was closed and is open again.

CREATE TABLE IF NOT EXISTS copy_part (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  part INT NOT NULL COMMENT 'its chunks are the rows of copy_detail with this number',
  condition_text TEXT NOT NULL COMMENT 'SQL over the columns of the source',
  begun DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  ended DATETIME(6) NULL COMMENT 'NULL: it is being copied, one of a table at a time',
  PRIMARY KEY (migration, source, table_schema, table_name, part)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'copy_detail' AND COLUMN_NAME = 'part') = 0,
  'ALTER TABLE copy_detail ADD COLUMN part INT NOT NULL DEFAULT 0 COMMENT "0: of the copy of the whole table"', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'phase' AND COLUMN_NAME = 'reopened') = 0,
  'ALTER TABLE phase ADD COLUMN reopened TINYINT NOT NULL DEFAULT 0
    COMMENT "1: its copy was closed before, and what is in the source log by now may not be readable yet"', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
