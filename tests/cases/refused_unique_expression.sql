-- A unique key on an expression that is a day of the session's time zone: a row would take another one's place.
-- flavours: mysql
-- tables: ue
-- refused: unique key day depends on the session
-- prepare
SET SESSION time_zone = '+08:00';
CREATE TABLE ue (id INT PRIMARY KEY, ts TIMESTAMP NULL, UNIQUE KEY day ((CAST(ts AS DATE))));
INSERT INTO ue VALUES (1, '2020-01-01 23:00:00'), (2, '2020-01-02 02:00:00');
