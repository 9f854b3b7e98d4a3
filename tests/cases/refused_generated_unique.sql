-- A unique key on a stored column that is a day of the session's time zone: a row would take another one's place.
-- flavours: mysql
-- tables: gu
-- refused: generated column d
-- prepare
SET SESSION time_zone = '+08:00';
CREATE TABLE gu (a VARCHAR(5) NOT NULL, id INT NOT NULL, ts TIMESTAMP NULL, d DATE AS (DATE(ts)) STORED, PRIMARY KEY (a, id), UNIQUE KEY (d));
INSERT INTO gu (a, id, ts) VALUES ('x', 1, '2020-01-01 23:00:00'), ('x', 2, '2020-01-02 02:00:00');
