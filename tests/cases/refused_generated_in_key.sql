-- A stored generated column in the primary key, which only MySQL allows.
-- flavours: mysql
-- tables: gk
-- refused: g
-- prepare
CREATE TABLE gk (id INT NOT NULL, g INT AS (id + 1) STORED NOT NULL, v INT, PRIMARY KEY (id, g));
INSERT INTO gk (id, v) VALUES (1, 1), (2, 2), (3, 3);
