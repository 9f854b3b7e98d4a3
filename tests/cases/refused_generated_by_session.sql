-- A stored column that is a day of the session's time zone.
-- tables: gs
-- refused: generated column day
-- prepare
SET SESSION time_zone = '+09:00';
CREATE TABLE gs (id INT NOT NULL PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)) STORED, KEY (day));
INSERT INTO gs (id, at) VALUES (1, '2026-03-01 03:00:00'), (2, '2026-03-01 12:00:00');
