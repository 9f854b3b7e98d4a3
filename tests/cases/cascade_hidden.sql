-- Rows in the middle of a chain that come again, change or go by statements before the marker that means them has come.
-- flavours: mariadb
-- tables: hd_p, hd_q, hd_g, hd_h, hd_m, hd_o, hd_t
-- prepare
CREATE TABLE hd_p (id INT PRIMARY KEY);
CREATE TABLE hd_q (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES hd_p (id) ON DELETE CASCADE);
CREATE TABLE hd_g (id INT PRIMARY KEY, q INT, code VARCHAR(9), UNIQUE (code), FOREIGN KEY (q) REFERENCES hd_q (id) ON DELETE CASCADE);
CREATE TABLE hd_h (id INT PRIMARY KEY, code VARCHAR(9), FOREIGN KEY (code) REFERENCES hd_g (code) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE hd_m (id INT PRIMARY KEY, q INT, v INT, UNIQUE (q), FOREIGN KEY (q) REFERENCES hd_q (id) ON DELETE SET NULL);
CREATE TABLE hd_o (id INT PRIMARY KEY, q INT, FOREIGN KEY (q) REFERENCES hd_m (q) ON UPDATE CASCADE);
CREATE TABLE hd_t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES hd_t (id) ON DELETE CASCADE);
INSERT INTO hd_p VALUES (1), (2);
INSERT INTO hd_q VALUES (1, 1), (2, 1), (3, 1), (4, 2), (5, 1);
INSERT INTO hd_g VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three');
INSERT INTO hd_h VALUES (1, 'one'), (2, 'two'), (3, 'three');
INSERT INTO hd_m VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0), (5, 5, 0);
INSERT INTO hd_o VALUES (1, 1), (2, 2), (3, 3), (5, 5);
INSERT INTO hd_t VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (9, NULL), (21, NULL), (22, 21), (23, 22), (24, 23);
-- live
BEGIN;
DELETE FROM hd_p WHERE id = 1;
INSERT INTO hd_g VALUES (1, 4, 'other'), (2, 4, 'two');
UPDATE hd_m SET v = 1 WHERE id = 1;
DELETE FROM hd_m WHERE id = 2;
UPDATE hd_m SET id = 30 WHERE id = 3;
COMMIT;
DELETE FROM hd_t WHERE id = 1;
INSERT INTO hd_t VALUES (3, 9);
BEGIN;
DELETE FROM hd_t WHERE id = 21;
INSERT INTO hd_t VALUES (23, 9);
DELETE FROM hd_t WHERE id = 23;
INSERT INTO hd_t VALUES (23, 9);
COMMIT;
