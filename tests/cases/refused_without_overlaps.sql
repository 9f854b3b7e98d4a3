-- A key that excludes rows whose periods overlap: the pieces of a row come in any order, each refused by the other.
-- flavours: mariadb
-- tables: wo
-- refused: PRIMARY KEY (`id`,`p` WITHOUT OVERLAPS) excludes rows whose periods overlap
-- prepare
CREATE TABLE wo (id INT NOT NULL, s DATE NOT NULL, e DATE NOT NULL, v INT, PERIOD FOR p (s, e), PRIMARY KEY (id, p WITHOUT OVERLAPS));
INSERT INTO wo VALUES (1, '2020-01-01', '2020-12-31', 1);
