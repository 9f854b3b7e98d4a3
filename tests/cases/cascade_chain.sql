-- A chain of three tables: the middle one's rows are in no log either.
-- tables: ch_a, ch_b, ch_c, ch_d
-- prepare
CREATE TABLE ch_a (id INT PRIMARY KEY);
CREATE TABLE ch_b (id INT PRIMARY KEY, a INT, code VARCHAR(20), UNIQUE (code), FOREIGN KEY (a) REFERENCES ch_a (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE ch_c (id INT PRIMARY KEY, b VARCHAR(20), FOREIGN KEY (b) REFERENCES ch_b (code) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE ch_d (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES ch_c (id) ON DELETE SET NULL);
INSERT INTO ch_a VALUES (1), (2), (3), (4);
INSERT INTO ch_b VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 2, 'three'), (4, 3, 'four');
INSERT INTO ch_c VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'), (5, 'one');
INSERT INTO ch_d VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, NULL);
-- early
DELETE FROM ch_a WHERE id = 2;
-- live
DELETE FROM ch_a WHERE id = 1;
UPDATE ch_b SET code = 'vier' WHERE id = 4;
UPDATE ch_a SET id = 30 WHERE id = 3;
INSERT INTO ch_b VALUES (6, 4, 'six');
INSERT INTO ch_c VALUES (6, 'SIX'), (7, 'six');
INSERT INTO ch_d VALUES (7, 6), (8, 7);
DELETE FROM ch_a WHERE id = 4;
INSERT INTO ch_b VALUES (1, 30, 'six');
