-- A CHECK of a single column that is an hour of the session's time zone; MariaDB keeps it on the column's own line.
-- tables: cc
-- refused: depends on the session
-- prepare
SET SESSION time_zone = '+09:00';
CREATE TABLE cc (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL CHECK (HOUR(ts) < 12));
INSERT INTO cc VALUES (1, '2026-03-01 11:00:00');
