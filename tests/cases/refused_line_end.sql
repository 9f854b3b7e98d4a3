-- A name with a line end: a definition is read line by line, and the target got a column of another name.
-- tables: nl
-- refused: has a name with a line end
-- prepare
CREATE TABLE nl (id INT NOT NULL PRIMARY KEY, `a{line_end}b` INT);
