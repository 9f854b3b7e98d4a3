-- An ENUM and a SET as the last part of a key: rows of one batch are deleted, changed and put under other keys.
-- tables: ek, sk
-- prepare
CREATE TABLE ek (id INT UNSIGNED NOT NULL, kind ENUM('a','b','c','d') NOT NULL, v INT, PRIMARY KEY (id, kind));
CREATE TABLE sk (id INT NOT NULL, flags SET('x','y','z') NOT NULL, v INT, PRIMARY KEY (id, flags));
INSERT INTO ek VALUES (1, 'a', 1), (1, 'b', 2), (2, 'c', 3), (3, 'd', 4);
INSERT INTO sk VALUES (1, '', 1), (1, 'x,z', 2), (2, 'y', 3), (2, 'x,y,z', 4);
-- live
DELETE FROM ek WHERE id = 1;
DELETE FROM sk WHERE id = 2;
UPDATE ek SET v = 30 WHERE id = 2;
UPDATE sk SET flags = 'x' WHERE flags = 'x,z';
