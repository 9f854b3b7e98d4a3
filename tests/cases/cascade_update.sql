-- Referenced values that change: in a child's own columns, in its primary key, composite, set to NULL.
-- tables: cu_p, cu_c, cu_k, cu_n, cu_t, cu_u
-- prepare
CREATE TABLE cu_p (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(5) NOT NULL, v INT, UNIQUE (a, b));
CREATE TABLE cu_c (id INT PRIMARY KEY, a INT, b VARCHAR(5), v INT, FOREIGN KEY (a, b) REFERENCES cu_p (a, b) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE cu_k (p INT, line INT, v INT, PRIMARY KEY (p, line), FOREIGN KEY (p) REFERENCES cu_p (id) ON UPDATE CASCADE);
CREATE TABLE cu_n (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES cu_p (id) ON UPDATE SET NULL);
CREATE TABLE cu_t (code VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT) COLLATE utf8mb4_general_ci;
CREATE TABLE cu_u (code VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT, FOREIGN KEY (code) REFERENCES cu_t (code) ON UPDATE CASCADE ON DELETE CASCADE) COLLATE utf8mb4_general_ci;
INSERT INTO cu_p VALUES (1, 1, 'x', 0), (2, 1, 'y', 0), (3, 3, 'z', 0), (4, 4, 'w', 0);
INSERT INTO cu_c VALUES (1, 1, 'x', 0), (2, 1, 'y', 0), (3, 3, NULL, 0), (4, NULL, 'z', 0), (5, 3, 'z', 0), (6, 4, 'w', 0);
INSERT INTO cu_k VALUES (1, 1, 0), (1, 2, 0), (2, 1, 0), (3, 1, 0);
INSERT INTO cu_n VALUES (1, 1), (2, 2), (3, 3), (4, NULL);
INSERT INTO cu_t VALUES ('abc', 1), ('def', 2), ('ghi', 3);
INSERT INTO cu_u VALUES ('ABC', 1), ('DEF', 2), ('ghi', 3);
-- early
UPDATE cu_p SET b = 'q' WHERE id = 2;
-- live
UPDATE cu_p SET a = 11 WHERE id = 1;
UPDATE cu_p SET id = id + 100 WHERE id IN (1, 2);
UPDATE cu_p SET v = 5 WHERE id = 3;
DELETE FROM cu_c WHERE id = 6;
UPDATE cu_p SET b = 'ww' WHERE id = 4;
UPDATE cu_k SET v = 9 WHERE p = 101 AND line = 2;
UPDATE cu_t SET code = 'xyz' WHERE code = 'abc';
DELETE FROM cu_t WHERE code = 'def';
UPDATE cu_t SET code = 'GHI' WHERE code = 'ghi';
