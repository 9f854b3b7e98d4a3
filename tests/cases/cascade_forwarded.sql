-- A middle table that hands its parent's value on, and whose row goes or gets another key behind the parent's change.
-- tables: cf_p, cf_c, cf_g, cf_s, cf_h, cf_t, cf_u, cf_o, cf_x
-- prepare
CREATE TABLE cf_p (id INT PRIMARY KEY, code VARCHAR(9) NOT NULL, UNIQUE (code));
CREATE TABLE cf_c (id INT PRIMARY KEY, code VARCHAR(9), UNIQUE (code), FOREIGN KEY (code) REFERENCES cf_p (code) ON UPDATE CASCADE);
CREATE TABLE cf_g (id INT PRIMARY KEY, code VARCHAR(9), UNIQUE (code), FOREIGN KEY (code) REFERENCES cf_c (code) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE cf_s (id INT PRIMARY KEY, code VARCHAR(9), UNIQUE (code), FOREIGN KEY (code) REFERENCES cf_p (code) ON DELETE SET NULL);
CREATE TABLE cf_h (id INT PRIMARY KEY, code VARCHAR(9), FOREIGN KEY (code) REFERENCES cf_s (code) ON UPDATE CASCADE);
INSERT INTO cf_p VALUES (1, 'a'), (2, 'k'), (3, 'n'), (4, 'q');
INSERT INTO cf_c VALUES (5, 'a'), (6, 'k');
INSERT INTO cf_g VALUES (9, 'a'), (8, 'k');
INSERT INTO cf_s VALUES (7, 'n'), (4, 'q');
INSERT INTO cf_h VALUES (7, 'n'), (4, 'q'), (5, 'q');
CREATE TABLE cf_t (code VARCHAR(9) PRIMARY KEY);
CREATE TABLE cf_u (id INT PRIMARY KEY, t VARCHAR(9), UNIQUE (t, id), UNIQUE (id, t), FOREIGN KEY (t) REFERENCES cf_t (code) ON UPDATE CASCADE);
CREATE TABLE cf_o (id INT PRIMARY KEY, t VARCHAR(9), u INT, FOREIGN KEY (t, u) REFERENCES cf_u (t, id) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE cf_x (id INT PRIMARY KEY, u INT, t VARCHAR(9), FOREIGN KEY (u, t) REFERENCES cf_u (id, t) ON UPDATE CASCADE ON DELETE CASCADE);
INSERT INTO cf_t VALUES ('a'), ('k');
INSERT INTO cf_u VALUES (5, 'a'), (6, 'k');
INSERT INTO cf_o VALUES (1, 'a', 5), (2, 'k', 6), (3, 'a', NULL);
INSERT INTO cf_x VALUES (1, 5, 'a'), (2, 6, 'k');
-- live
BEGIN;
UPDATE cf_p SET code = 'b' WHERE id = 1;
UPDATE cf_c SET id = 50 WHERE id = 5;
COMMIT;
BEGIN;
UPDATE cf_p SET code = 'l' WHERE id = 2;
DELETE FROM cf_c WHERE id = 6;
COMMIT;
BEGIN;
DELETE FROM cf_p WHERE id = 3;
DELETE FROM cf_s WHERE id = 7;
COMMIT;
BEGIN;
DELETE FROM cf_p WHERE id = 4;
UPDATE cf_s SET id = 40 WHERE id = 4;
COMMIT;
BEGIN;
UPDATE cf_t SET code = 'b' WHERE code = 'a';
UPDATE cf_u SET id = 50 WHERE id = 5;
COMMIT;
BEGIN;
UPDATE cf_t SET code = 'l' WHERE code = 'k';
DELETE FROM cf_u WHERE id = 6;
COMMIT;
