-- Version 23: a config file of any size; every table has a primary key, which servers may demand.

ALTER TABLE migration MODIFY config LONGTEXT NOT NULL COMMENT 'the config file as it was at init; secrets stand as ${NAME}';

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'verification_difference' AND COLUMN_NAME = 'id') = 0,
  'ALTER TABLE verification_difference
    ADD COLUMN id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
