-- Version 6: a failover without GTID knows up to where it publishes again what was published before.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'failover' AND COLUMN_NAME = 'until_file') = 0,
  'ALTER TABLE failover ADD COLUMN until_file VARCHAR(255) NOT NULL DEFAULT ""
    COMMENT "where the log of the new server ended then", ADD COLUMN until_pos BIGINT UNSIGNED NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
