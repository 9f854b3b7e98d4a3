-- Version 39: statements that are run over all shard tables of a logical table: each run, and a row of state for each
-- table, with its definitions from before and after, by which a later process tells what was done.

CREATE TABLE IF NOT EXISTS ddl_run (
  migration VARCHAR(48) NOT NULL COMMENT 'the name in the config file, also where no migration was begun under it',
  run INT NOT NULL,
  statement MEDIUMTEXT NOT NULL COMMENT 'as it was given, for the logical table',
  goal VARCHAR(8) NOT NULL COMMENT 'new: every table is to be as after the statement; old: as before it',
  allowed VARCHAR(64) NOT NULL COMMENT 'the algorithm and the lock that it may take at most',
  undo_loses TEXT NOT NULL COMMENT 'what of the values goes where it is taken back',
  started DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  finished DATETIME(6) NULL,
  PRIMARY KEY (migration, run)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS ddl_shard (
  migration VARCHAR(48) NOT NULL,
  run INT NOT NULL,
  shard INT NOT NULL COMMENT 'its place in the order of the run',
  side VARCHAR(8) NOT NULL COMMENT 'source or target',
  server VARCHAR(48) NOT NULL,
  database_name VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  undo_clauses MEDIUMTEXT NULL COMMENT 'JSON: the clauses of the compensating statement; NULL: there is none',
  before_definition MEDIUMTEXT NOT NULL COMMENT 'in normal form, as the two below',
  after_definition MEDIUMTEXT NOT NULL COMMENT 'empty: the table is not there',
  witness VARCHAR(64) NOT NULL COMMENT 'of a TRUNCATE: the number that the engine gave the table before it',
  algorithm VARCHAR(8) NOT NULL COMMENT 'that the server took on a scratch table',
  lock_mode VARCHAR(10) NOT NULL,
  stage VARCHAR(10) NOT NULL COMMENT 'waiting, begun, new, undoing, old, failed, altered',
  attempts INT NOT NULL DEFAULT 0 COMMENT 'statements that were sent',
  began DATETIME(6) NULL COMMENT 'before the last statement was sent',
  ended DATETIME(6) NULL,
  detail TEXT NOT NULL COMMENT 'why it failed, or what is different',
  PRIMARY KEY (migration, run, shard)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
