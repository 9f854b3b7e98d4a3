-- Version 44: what people did from the page.

CREATE TABLE IF NOT EXISTS page_action (
  migration VARCHAR(48) NOT NULL,
  number INT NOT NULL,
  operator VARCHAR(128) NOT NULL,
  command TEXT NOT NULL COMMENT 'as it is typed',
  began DATETIME(6) NOT NULL,
  ended DATETIME(6) NULL,
  exit_code INT NULL COMMENT 'NULL: it runs, or the web server that began it did not see its end',
  output MEDIUMTEXT NULL COMMENT 'the end of what it said',
  PRIMARY KEY (migration, number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
