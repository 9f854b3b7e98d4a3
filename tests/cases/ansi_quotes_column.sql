-- Columns added at the target first, then in a session with ANSI_QUOTES at the source (`ddl: ignore`), twice.
-- tables: ai
-- ddl: ignore
-- prepare
CREATE TABLE ai (id INT NOT NULL PRIMARY KEY, a INT);
-- target
ALTER TABLE ai ADD COLUMN n INT;
-- live
SET SESSION sql_mode = 'ANSI_QUOTES';
ALTER TABLE "ai" ADD COLUMN "n" INT;
INSERT INTO ai VALUES (1, 1, 1);
-- target
ALTER TABLE ai ADD COLUMN m INT;
-- live
SET SESSION sql_mode = DEFAULT;
ALTER TABLE ai ADD COLUMN m INT;
INSERT INTO ai VALUES (2, 2, 2, 2);
