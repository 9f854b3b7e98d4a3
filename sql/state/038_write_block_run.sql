-- Version 38: of a block on writes the run that noted it last: an earlier run, suspended while it ended its own, does not
-- take a later run's away. 0: noted before the state kept it.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'write_block' AND COLUMN_NAME = 'run') = 0,
  'ALTER TABLE write_block ADD COLUMN run INT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;
