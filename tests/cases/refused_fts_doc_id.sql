-- InnoDB takes a row of a table that numbers the documents of its full-text keys itself only above the highest number.
-- tables: fd_own
-- refused: FTS_DOC_ID
-- prepare
CREATE TABLE fd_own (FTS_DOC_ID BIGINT UNSIGNED NOT NULL PRIMARY KEY, v TEXT, FULLTEXT KEY words (v));
INSERT INTO fd_own VALUES (5, 'five'), (9, 'nine');
