-- Version 24: how far a publisher may have published, so that no message from beyond it is believed.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'position' AND COLUMN_NAME = 'reach_file') = 0,
  'ALTER TABLE position ADD COLUMN reach_file BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
