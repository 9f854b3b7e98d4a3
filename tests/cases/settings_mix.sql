-- Ordinary tables with values that are easily changed, more rows than `sql_select_limit`, an ENUM's error value.
-- tables: sm, st, su, sb, se
-- prepare
SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+05:30';
CREATE TABLE sm (id INT NOT NULL PRIMARY KEY, c CHAR(10) CHARACTER SET latin1, v VARCHAR(20) CHARACTER SET utf8mb4, d DATETIME(3), ts TIMESTAMP(6) NULL, f FLOAT, g DOUBLE, n DECIMAL(20,6), b BIT(12), j JSON, t TIME(2), y YEAR, s SET('a','b','c'), x VARBINARY(20), z INT(6) UNSIGNED ZEROFILL, p POINT, r REAL);
CREATE TABLE st (k VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY, v INT);
CREATE TABLE su (id INT NOT NULL PRIMARY KEY, u VARCHAR(20) NOT NULL, UNIQUE KEY (u));
CREATE TABLE sb (id INT NOT NULL PRIMARY KEY, t LONGTEXT, b LONGBLOB);
CREATE TABLE se (id INT NOT NULL PRIMARY KEY, e ENUM('a','b') NULL, v VARCHAR(10));
INSERT INTO sm VALUES (1, 'a', 'b \\ '' " ', '2026-01-01 00:00:00.123', '2026-03-29 02:30:00.000001', 0.1, 1e-300, 12345678901234.123456, 4095, '{"a": [1.5, "x\\"y"]}', '-12:00:00.5', 2026, 'a,c', 0x005C27, 42, ST_GeomFromText('POINT(1 2)'), 1.1), (2, '', '  ', '0000-00-00', NULL, -0.0, 1e308, 0, 0, 'null', '838:59:59', 0, '', '', 0, NULL, 0);
INSERT INTO st VALUES ('abc', 1), ('ABD ', 2), ('é', 3), ('x\\''"', 4);
INSERT INTO su VALUES (1, 'one'), (2, 'two'), (3, 'three');
INSERT INTO su WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 900) SELECT n + 10, CONCAT('u', n) FROM s;
INSERT INTO sb VALUES (1, REPEAT('x', 600000), REPEAT(0xFF00, 150000)), (2, '', NULL);
INSERT INTO se VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, NULL, 'z');
INSERT IGNORE INTO se VALUES (4, 'nothing', 'bad');
-- early
UPDATE su SET u = 'moved' WHERE id = 1;
UPDATE su SET u = 'one' WHERE id = 2;
INSERT IGNORE INTO se VALUES (5, 'nothing', 'bad too');
-- live
SET SESSION time_zone = '-09:30';
UPDATE sm SET c = 'q''\\"', v = 'pad  ', ts = '2026-07-01 12:00:00', d = '2026-02-31 00:00:00' WHERE id = 2;
INSERT INTO sm (id, ts, j) VALUES (3, '2038-01-18 00:00:00', '[]');
UPDATE st SET k = 'ABC' WHERE k = 'abc';
UPDATE st SET v = 9 WHERE k = 'x\\''"';
DELETE FROM su WHERE id = 3;
INSERT INTO su VALUES (4, 'three');
UPDATE sb SET t = REPEAT('é\\', 150000) WHERE id = 2;
UPDATE IGNORE se SET e = 'nothing' WHERE id = 1;
UPDATE se SET v = 'seen' WHERE id = 4;
DELETE FROM se WHERE id = 3;
