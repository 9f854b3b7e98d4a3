-- A stored column that a mode of the writer's session alone, which no global value names, has given another value.
-- flavours: mysql
-- tables: gp
-- refused: generated column n has another value in rows
-- prepare
SET SESSION sql_mode = 'PAD_CHAR_TO_FULL_LENGTH';
CREATE TABLE gp (id INT PRIMARY KEY, c CHAR(9), n INT AS (CHAR_LENGTH(c)) STORED);
INSERT INTO gp (id, c) VALUES (1, 'a'), (2, 'b');
