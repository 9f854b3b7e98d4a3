-- A table that refers to itself, and a child of two parents.
-- tables: ci_t, ci_p, ci_q, ci_c
-- prepare
CREATE TABLE ci_t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES ci_t (id) ON DELETE CASCADE);
CREATE TABLE ci_p (id INT PRIMARY KEY);
CREATE TABLE ci_q (id INT PRIMARY KEY);
CREATE TABLE ci_c (id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES ci_p (id) ON DELETE CASCADE, FOREIGN KEY (q) REFERENCES ci_q (id) ON DELETE SET NULL);
INSERT INTO ci_t VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, 4), (6, NULL), (7, 6), (8, 8);
INSERT INTO ci_p VALUES (1), (2), (3);
INSERT INTO ci_q VALUES (1), (2), (3);
INSERT INTO ci_c VALUES (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 3, 3), (5, NULL, 2);
-- early
DELETE FROM ci_t WHERE id = 4;
-- live
DELETE FROM ci_t WHERE id = 1;
REPLACE INTO ci_t VALUES (8, 8);
DELETE FROM ci_t WHERE id = 8;
INSERT INTO ci_t VALUES (8, 8);
INSERT INTO ci_t VALUES (1, 6), (9, 1), (10, 9);
DELETE FROM ci_t WHERE id = 6;
DELETE FROM ci_q WHERE id IN (1, 2);
DELETE FROM ci_p WHERE id = 1;
