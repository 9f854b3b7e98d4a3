-- Version 31: what a clean verification settles is told by its number. The server's clock told it, which may be set back.

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'foreign_write' AND COLUMN_NAME = 'began') = 0,
  'ALTER TABLE foreign_write ADD COLUMN began BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

UPDATE foreign_write noted SET noted.began =
  (SELECT COALESCE(MAX(run.id), 0) FROM verification run WHERE run.started < noted.seen);

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'oversized' AND COLUMN_NAME = 'began') = 0,
  'ALTER TABLE oversized ADD COLUMN began BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

UPDATE oversized noted SET noted.began =
  (SELECT COALESCE(MAX(run.id), 0) FROM verification run WHERE run.started < noted.at);

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'check_difference' AND COLUMN_NAME = 'began') = 0,
  'ALTER TABLE check_difference ADD COLUMN began BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

UPDATE check_difference noted SET noted.began =
  (SELECT COALESCE(MAX(run.id), 0) FROM verification run WHERE run.started <= noted.last_seen);

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'left_out' AND COLUMN_NAME = 'began') = 0,
  'ALTER TABLE left_out ADD COLUMN began BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

UPDATE left_out noted SET noted.began =
  (SELECT COALESCE(MAX(run.id), 0) FROM verification run WHERE run.started < noted.created);

SET @add = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
    AND TABLE_NAME = 'lost_writes' AND COLUMN_NAME = 'began') = 0,
  'ALTER TABLE lost_writes ADD COLUMN began BIGINT NOT NULL DEFAULT 0', 'DO 0');

PREPARE add_column FROM @add;

EXECUTE add_column;

DEALLOCATE PREPARE add_column;

UPDATE lost_writes noted SET noted.began =
  (SELECT COALESCE(MAX(run.id), 0) FROM verification run WHERE run.started <= noted.found);
