-- Characters of four bytes, which the servers print as question marks, in labels, defaults and expressions.
-- tables: fb
-- prepare
CREATE TABLE fb (id INT NOT NULL PRIMARY KEY, e ENUM('😀','订','?') CHARACTER SET utf8mb4, s SET('x','😀') CHARACTER SET utf8mb4,
  d VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT '😀', l VARCHAR(9) CHARACTER SET latin1, g INT AS (IF(l = 'é', 1, 2)) STORED);
-- early
INSERT INTO fb (id, e, s, l) VALUES (1, 1, 3, 'é'), (2, 3, 2, 'e');
-- live
INSERT INTO fb (id, e, s, l) VALUES (3, 1, 1, 'é');
ALTER TABLE fb ADD INDEX i (e);
UPDATE fb SET e = 2, l = 'é' WHERE id = 2;
