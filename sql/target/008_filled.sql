-- Which tables of this database each stream fills, as `migrate init` found it: a TRUNCATE that is brought to one of them
-- (tables[].ddl) would take the rows of all.

CREATE TABLE _migrate_filled (
  migration VARCHAR(48) NOT NULL COMMENT 'the stream that writes here',
  place VARCHAR(64) NOT NULL COMMENT 'physical table in this database',
  empties TINYINT NOT NULL COMMENT '1: the stream brings a TRUNCATE of the source table here',
  PRIMARY KEY (migration, place)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
