-- A transaction that was rolled back and stands in the log all the same, for a temporary table in it.
-- tables: rt
-- prepare
CREATE TABLE rt (id INT NOT NULL PRIMARY KEY, a INT);
-- live
BEGIN;
INSERT INTO rt VALUES (1, 1);
CREATE TEMPORARY TABLE x (a INT);
DROP TEMPORARY TABLE x;
INSERT INTO rt VALUES (2, 2);
ROLLBACK;
INSERT INTO rt VALUES (9, 9);
