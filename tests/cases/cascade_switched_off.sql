-- A session without foreign key checks: nothing cascades there, and the orphans stay.
-- tables: co_p, co_c
-- prepare
CREATE TABLE co_p (id INT PRIMARY KEY);
CREATE TABLE co_c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES co_p (id) ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO co_p VALUES (1), (2), (3);
INSERT INTO co_c VALUES (1, 1), (2, 2), (3, 3);
-- live
SET SESSION foreign_key_checks = 0;
DELETE FROM co_p WHERE id = 1;
UPDATE co_p SET id = 20 WHERE id = 2;
SET SESSION foreign_key_checks = 1;
REPLACE INTO co_p VALUES (3);
