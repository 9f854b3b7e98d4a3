-- A label with a backslash, which a session with NO_BACKSLASH_ESCAPES prints otherwise.
-- tables: nb
-- prepare
CREATE TABLE nb (id INT NOT NULL PRIMARY KEY, e ENUM('a\\b','c') DEFAULT 'c', a INT);
-- live
SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES';
ALTER TABLE nb ADD INDEX i1 (a);
INSERT INTO nb VALUES (1, 1, 1);
SET SESSION sql_mode = DEFAULT;
ALTER TABLE nb ADD INDEX i2 (e);
INSERT INTO nb VALUES (2, 1, 2);
