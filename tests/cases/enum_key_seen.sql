-- Rows under a key with an ENUM, which the test changes and deletes at the target by hand.
-- tables: es
-- prepare
CREATE TABLE es (id INT NOT NULL, kind ENUM('a','b') NOT NULL, v INT, PRIMARY KEY (id, kind));
INSERT INTO es VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 3), (2, 'b', 4);
