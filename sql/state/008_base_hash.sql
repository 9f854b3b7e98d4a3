-- Version 8: a table's rule without its row conditions, so that `migrate init` sees that only these changed.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'phase' AND COLUMN_NAME = 'base_hash') = 0,
  'ALTER TABLE phase ADD COLUMN base_hash CHAR(64) NOT NULL DEFAULT ""
    COMMENT "as rule_hash, without row conditions; empty: not noted yet"', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
