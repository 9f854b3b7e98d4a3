-- Version 28: markers of rows that a foreign key changed, on their way into every partition of a table: those for the
-- children of such rows, until the source's publisher has come behind the change; those of a table whose copy is open,
-- as it may still bring rows as they were.

CREATE TABLE IF NOT EXISTS waiting_marker (
  id BIGINT NOT NULL AUTO_INCREMENT,
  migration VARCHAR(48) NOT NULL,
  digest BINARY(32) NOT NULL COMMENT 'SHA-256 of what it says; of one that was sent, of anything',
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL COMMENT 'coordinate of the change that it follows',
  copied TINYINT NOT NULL COMMENT '1: waits until the copy of the table is closed',
  message MEDIUMTEXT NOT NULL COMMENT 'as it is sent',
  sent DATETIME(6) NULL,
  PRIMARY KEY (id),
  UNIQUE KEY (migration, digest),
  KEY (migration, sent, copied, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
