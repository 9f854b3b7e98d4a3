-- A unique key over a TEXT, for which MariaDB's log has a column that the catalog hides.
-- flavours: mariadb
-- tables: lu
-- refused: unique keys by hash (by_b, by_t)
-- prepare
CREATE TABLE lu (id INT NOT NULL PRIMARY KEY, t TEXT NOT NULL, b BLOB, UNIQUE KEY by_t (t), UNIQUE KEY by_b (b));
