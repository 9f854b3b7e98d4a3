-- Defaults that are no UTF-8, which MariaDB prints as they are.
-- tables: bd
-- prepare
CREATE TABLE bd (id INT NOT NULL PRIMARY KEY, x VARBINARY(4) DEFAULT 0x00FF, k BINARY(2) NOT NULL DEFAULT 0xC3C3);
INSERT INTO bd (id) VALUES (1), (2);
-- live
INSERT INTO bd (id) VALUES (3);
UPDATE bd SET x = 0xFE WHERE id = 1;
