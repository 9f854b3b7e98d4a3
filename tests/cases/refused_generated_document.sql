-- A unique stored column that is a day of the session's time zone, of a moment in a document; MariaDB refuses it itself.
-- flavours: mysql
-- tables: gd
-- refused: generated column d
-- prepare
CREATE TABLE gd (id INT PRIMARY KEY, doc JSON, d DATE AS (CAST(FROM_UNIXTIME(doc->>'$.ts') AS DATE)) STORED, UNIQUE KEY (d));
