-- A type whose definition is larger than a message may be, and rows of eight bytes.
-- flavours: mysql
-- tables: he
-- prepare
CREATE TABLE he (id INT NOT NULL PRIMARY KEY, e ENUM({labels}));
-- live
INSERT INTO he VALUES (1, 1);
UPDATE he SET e = 7;
