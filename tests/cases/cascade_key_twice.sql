-- A key that changes twice, through two tables whose keys hold it. MySQL 9 refuses such a statement.
-- flavours: mariadb
-- tables: ct_k, ct_l, ct_m
-- prepare
CREATE TABLE ct_k (a INT PRIMARY KEY);
CREATE TABLE ct_l (a INT, b INT, PRIMARY KEY (a, b), FOREIGN KEY (a) REFERENCES ct_k (a) ON UPDATE CASCADE);
CREATE TABLE ct_m (a INT, b INT, c INT, PRIMARY KEY (a, b, c), FOREIGN KEY (a, b) REFERENCES ct_l (a, b) ON UPDATE CASCADE);
INSERT INTO ct_k VALUES (1), (5);
INSERT INTO ct_l VALUES (1, 1), (1, 2), (5, 1);
INSERT INTO ct_m VALUES (1, 1, 1), (1, 1, 2), (1, 2, 1), (5, 1, 1);
-- live
UPDATE ct_k SET a = 2 WHERE a = 1;
UPDATE ct_k SET a = 3 WHERE a = 2;
INSERT INTO ct_m VALUES (5, 1, 9);
