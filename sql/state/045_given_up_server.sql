-- Version 45: the journal of a cutover takes the longest name of a server that a run goes without, and rows are listed that such a
-- server may have.

ALTER TABLE cutover_step MODIFY COLUMN step VARCHAR(64) NOT NULL;

ALTER TABLE foreign_write MODIFY COLUMN kind VARCHAR(8) NOT NULL
  COMMENT 'foreign: written while the side was standby; late: came when the other was active; unread: a lost server may have it';
