-- Numbers that a FLOAT of so many digits has and does not take: rounded to a float the largest is above the largest.
-- tables: fd
-- prepare
CREATE TABLE fd (id INT PRIMARY KEY, v FLOAT(10,2), w FLOAT(8,2), x INT);
INSERT INTO fd VALUES (1, 1, 1, 0), (2, 99999999.99, 999999.99, 0), (3, -99999999.99, 0.1, 0), (4, 5, 5, 5);
-- early
UPDATE fd SET x = 1 WHERE id = 3;
-- live
UPDATE fd SET x = 1 WHERE id = 2;
UPDATE fd SET v = 99999999.99 WHERE id = 4;
INSERT INTO fd VALUES (5, 99999999.99, -999999.99, 7);
