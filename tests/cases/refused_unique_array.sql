-- A unique key on the elements of an array: whose value a row takes no statement can ask (MySQL's error 1235).
-- flavours: mysql
-- tables: mv
-- refused: unique keys on the elements of arrays (`tags`, `both`)
-- prepare
CREATE TABLE mv (id INT PRIMARY KEY, j JSON, k INT, KEY many ((CAST(j->'$.c' AS UNSIGNED ARRAY))), UNIQUE KEY plain ((CAST(j->'$."d array)"' AS SIGNED))), UNIQUE KEY tags ((CAST(j->'$.a' AS UNSIGNED ARRAY))), UNIQUE KEY `both` (k, (CAST(j->'$.b' AS CHAR(9) ARRAY))));
INSERT INTO mv VALUES (1, '{"a": [1, 2]}', 1);
