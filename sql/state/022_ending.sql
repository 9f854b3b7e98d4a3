-- Version 22: how a process ended that is started again by itself, so that `migrate status` can say it.

CREATE TABLE IF NOT EXISTS ending (
  migration VARCHAR(48) NOT NULL,
  process VARCHAR(255) NOT NULL,
  reason TEXT NOT NULL,
  hint TEXT NOT NULL,
  at DATETIME(6) NOT NULL,
  PRIMARY KEY (migration, process)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
