-- Version 41: for how long a lease was taken: one whose end is later than that was taken before the server's clock was
-- set back, and ends once its holder does not renew it for so long. NULL: taken before the state kept it.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'lease' AND COLUMN_NAME = 'seconds') = 0,
  'ALTER TABLE lease ADD COLUMN seconds DOUBLE NULL', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
