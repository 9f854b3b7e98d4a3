-- Version 46: of a group, the statements of its source tables and the run by which the target tables have what each of
-- them brings: the first one's statement is run, the others' bring the same.

CREATE TABLE IF NOT EXISTS ddl_member (
  migration VARCHAR(48) NOT NULL,
  run INT NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  incarnation INT NOT NULL COMMENT 'where the statement stands in the log of its source, as the two below',
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  brings MEDIUMTEXT NOT NULL COMMENT 'JSON: the columns that are new or wider by it',
  PRIMARY KEY (migration, run, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
