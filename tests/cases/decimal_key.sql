-- DECIMAL keys of which doubles hold no two neighbours: most rows are deleted in one statement, two stay.
-- tables: dk, dm, dc
-- prepare
CREATE TABLE dk (id DECIMAL(20,0) NOT NULL PRIMARY KEY, v INT);
CREATE TABLE dm (id DECIMAL(30,10) NOT NULL PRIMARY KEY, v INT);
CREATE TABLE dc (a INT NOT NULL, id DECIMAL(20,0) NOT NULL, v INT, PRIMARY KEY (a, id));
INSERT INTO dk WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 19) SELECT 1234567890123456000 + n, n FROM s;
INSERT INTO dm SELECT CAST(CONCAT('12345678901234.00', LPAD(v, 8, '0')) AS DECIMAL(30,10)), v FROM dk;
INSERT INTO dc SELECT 1, id, v FROM dk;
-- live
DELETE FROM dk WHERE v < 18;
DELETE FROM dm WHERE v < 18;
DELETE FROM dc WHERE v < 18;
