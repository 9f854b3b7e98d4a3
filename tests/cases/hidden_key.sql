-- The key that MySQL makes of its own for a table without one, and hides (sql_generate_invisible_primary_key).
-- flavours: mysql
-- tables: gi
-- prepare
SET SESSION sql_generate_invisible_primary_key = ON;
CREATE TABLE gi (a INT, v VARCHAR(9));
INSERT INTO gi (a, v) VALUES (1, 'a'), (1, 'a'), (2, 'b');
-- early
INSERT INTO gi (a, v) VALUES (1, 'a');
UPDATE gi SET v = 'early' WHERE my_row_id = 2;
-- live
INSERT INTO gi VALUES (1, 'a'), (3, 'c');
UPDATE gi SET my_row_id = 90, v = 'moved' WHERE my_row_id = 1;
DELETE FROM gi WHERE my_row_id = 3;
INSERT INTO gi VALUES (4, 'behind');
