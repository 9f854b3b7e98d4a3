-- A parent goes, and its children go with it: MariaDB's log has the parent alone.
-- tables: cd_p, cd_c, cd_n
-- prepare
CREATE TABLE cd_p (id INT PRIMARY KEY, v INT);
CREATE TABLE cd_c (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES cd_p (id) ON DELETE CASCADE);
CREATE TABLE cd_n (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES cd_p (id) ON DELETE SET NULL);
INSERT INTO cd_p VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6);
INSERT INTO cd_c VALUES (1, 1, 0), (2, 1, 0), (3, 2, 0), (4, 3, 0), (5, 4, 0), (6, NULL, 0);
INSERT INTO cd_n VALUES (1, 1, 0), (2, 1, 0), (3, 2, 0), (4, 3, 0), (5, 4, 0), (6, NULL, 0);
-- early
DELETE FROM cd_p WHERE id = 1;
-- live
INSERT INTO cd_c VALUES (10, 2, 0), (11, 5, 0);
INSERT INTO cd_n VALUES (10, 2, 0), (11, 5, 0);
DELETE FROM cd_p WHERE id IN (2, 4);
INSERT INTO cd_p VALUES (2, 20);
INSERT INTO cd_c VALUES (3, 2, 1);
UPDATE cd_n SET v = 7 WHERE id = 3;
DELETE FROM cd_p WHERE id = 5;
