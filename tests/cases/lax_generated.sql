-- Rows of a lax mode whose generated columns are cut or are no numbers, written, changed and deleted.
-- tables: lg, lv
-- prepare
SET SESSION sql_mode = '';
CREATE TABLE lg (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9), f VARCHAR(6) AS (CONCAT(a, b)) STORED, n INT AS (a + 0) STORED);
CREATE TABLE lv (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9), t TINYINT AS (a * 100) VIRTUAL, n INT AS (a + 0) VIRTUAL, KEY (t), KEY (n));
INSERT INTO lg (id, a, b) VALUES (1, '1', 'x'), (2, 'abcdef', 'ghi'), (4, '4four', 'x'), (5, '5five', 'x'), (6, '6', '');
INSERT INTO lv (id, a, b) VALUES (1, '1', 'x'), (2, 'abcdef', 'ghi'), (4, '4four', 'x'), (5, '5five', 'x'), (6, '6', '');
-- early
UPDATE lg SET b = 'early' WHERE id = 2;
UPDATE lv SET b = 'early' WHERE id = 2;
DELETE FROM lg WHERE id = 5;
DELETE FROM lv WHERE id = 5;
-- live
INSERT INTO lg (id, a, b) VALUES (3, '12abc', 'zzzzz'), (7, '7', '');
INSERT INTO lv (id, a, b) VALUES (3, '12abc', 'zzzzz'), (7, '7', '');
UPDATE lg SET a = 'six' WHERE id = 6;
UPDATE lv SET a = 'six' WHERE id = 6;
UPDATE lg SET id = 8, a = 'x' WHERE id = 2;
UPDATE lv SET id = 8, a = 'x' WHERE id = 2;
DELETE FROM lg WHERE id = 4;
DELETE FROM lv WHERE id = 4;
