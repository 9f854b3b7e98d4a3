-- A column is dropped that is not there.
-- flavours: mariadb
-- tables: de
-- prepare
CREATE TABLE de (id INT NOT NULL PRIMARY KEY, a INT);
-- live
ALTER TABLE de DROP COLUMN IF EXISTS nothing;
INSERT INTO de VALUES (3, 3);
