-- Indexes over the same columns, of which the servers warn.
-- tables: tw
-- prepare
CREATE TABLE tw (id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(20), KEY one (a), KEY two (a), KEY three (b), KEY four (b));
INSERT INTO tw VALUES (1, 1, 'x'), (2, 2, 'y');
-- live
UPDATE tw SET a = 9 WHERE id = 2;
INSERT INTO tw VALUES (3, 3, 'z');
