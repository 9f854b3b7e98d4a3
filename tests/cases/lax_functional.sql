-- Rows of a lax mode whose values in keys on expressions are cut, no numbers or too large; MySQL alone has such keys.
-- flavours: mysql
-- tables: lf, lu
-- prepare
SET SESSION sql_mode = '';
CREATE TABLE lf (id INT PRIMARY KEY, a VARCHAR(9), t VARCHAR(40), KEY ((CAST(a AS UNSIGNED))), KEY ((CAST(t AS CHAR(5)))), KEY ((CAST(t AS DECIMAL(3,1)))));
CREATE TABLE lu (id INT PRIMARY KEY, a VARCHAR(9), UNIQUE KEY ((CAST(a AS UNSIGNED))));
INSERT INTO lf VALUES (1, '1', '1'), (2, '12abc', '123456789'), (3, 'x', '999'), (4, '4x', '1');
INSERT INTO lu VALUES (1, '1x'), (2, '2x'), (3, '3'), (4, '4x');
-- early
UPDATE lf SET t = 'early on' WHERE id = 2;
-- live
INSERT INTO lf VALUES (5, '5x', '123456');
UPDATE lf SET a = 'y' WHERE id = 1;
DELETE FROM lf WHERE id = 4;
UPDATE lu SET a = '9y' WHERE id = 1;
UPDATE lu SET a = '1z' WHERE id = 2;
UPDATE lu SET a = '2z' WHERE id = 1;
INSERT INTO lu VALUES (5, '5x');
DELETE FROM lu WHERE id = 4;
