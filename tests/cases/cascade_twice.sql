-- Changes that follow each other before the first one is applied: a row moves by itself, and goes, or makes way.
-- tables: ct_a, ct_b, ct_c, ct_p, ct_q, ct_r
-- prepare
CREATE TABLE ct_a (id INT PRIMARY KEY);
CREATE TABLE ct_b (id INT PRIMARY KEY, a INT, n INT, FOREIGN KEY (a) REFERENCES ct_a (id) ON DELETE CASCADE ON UPDATE CASCADE, FOREIGN KEY (n) REFERENCES ct_a (id) ON DELETE SET NULL);
CREATE TABLE ct_c (id INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES ct_b (id) ON DELETE CASCADE);
INSERT INTO ct_a VALUES (1), (2), (3), (4);
INSERT INTO ct_b VALUES (1, 3, NULL), (2, 3, 4), (3, 1, 4);
INSERT INTO ct_c VALUES (1, 1), (2, 2), (3, 3), (4, 1);
CREATE TABLE ct_p (id INT PRIMARY KEY);
CREATE TABLE ct_q (id INT PRIMARY KEY, p INT, code VARCHAR(5), UNIQUE (code), FOREIGN KEY (p) REFERENCES ct_p (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE ct_r (id INT PRIMARY KEY, q INT, FOREIGN KEY (q) REFERENCES ct_q (id) ON DELETE CASCADE);
INSERT INTO ct_p VALUES (1), (6);
INSERT INTO ct_q VALUES (1, 1, 'x'), (6, 6, 'y');
INSERT INTO ct_r VALUES (1, 1), (2, 6);
-- live
UPDATE ct_p SET id = 60 WHERE id = 6;
DELETE FROM ct_p WHERE id = 1;
UPDATE ct_q SET code = 'x' WHERE id = 6;
UPDATE ct_a SET id = 30 WHERE id = 3;
DELETE FROM ct_a WHERE id = 30;
BEGIN;
DELETE FROM ct_a WHERE id = 4;
DELETE FROM ct_a WHERE id = 1;
COMMIT;
