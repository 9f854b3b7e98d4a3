-- Lost: ranges of the key left rows out whose values have a character below the space, of the copy and of each
-- verification: `a` and a tab comes before `a` in the index, and behind it where values are compared.
-- flavours: mariadb
-- tables: cnp
-- refused: its key is on CHAR in a NO PAD collation (k)
-- prepare
CREATE TABLE cnp (n INT, k CHAR(9) CHARACTER SET latin1 COLLATE latin1_nopad_bin, v INT, PRIMARY KEY (n, k));
INSERT INTO cnp VALUES (1, 'a', 1), (1, 'a\t', 2), (1, 'ab', 3);
