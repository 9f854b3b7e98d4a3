-- Statements of sessions with ANSI_QUOTES that change no column, and others behind them.
-- tables: aq
-- prepare
CREATE TABLE aq (id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(10) DEFAULT 'x');
-- live
SET SESSION sql_mode = 'ANSI_QUOTES';
ALTER TABLE "aq" ADD INDEX "i1" ("a");
INSERT INTO aq VALUES (1, 1, 'a');
SET SESSION sql_mode = DEFAULT;
ALTER TABLE aq ADD INDEX i2 (b);
INSERT INTO aq VALUES (2, 2, 'b');
SET SESSION sql_mode = 'ANSI';
CREATE INDEX "i3" ON "aq" ("a", "b");
UPDATE aq SET a = 5;
SET SESSION sql_mode = DEFAULT;
ALTER TABLE aq COMMENT 'x';
INSERT INTO aq VALUES (3, 3, 'c');
