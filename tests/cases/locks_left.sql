-- A row that `migrate refresh` reads with a lock; the test then changes it and its table as the application.
-- tables: lt
-- prepare
CREATE TABLE lt (id INT NOT NULL PRIMARY KEY, v INT);
INSERT INTO lt VALUES (1, 1), (2, 2);
COMMIT;
