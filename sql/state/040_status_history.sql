-- Version 40: what the status was, once a minute, so that plots of the operator's page survive a restart. Rows of the last
-- seven days are kept.

CREATE TABLE IF NOT EXISTS status_history (
  migration VARCHAR(48) NOT NULL,
  minute BIGINT NOT NULL COMMENT 'since 1970, by the state server',
  at DATETIME(6) NOT NULL,
  stage VARCHAR(16) NOT NULL COMMENT 'empty: of a reverse stream, which has none',
  lag_seconds DOUBLE NOT NULL,
  changes BIGINT NOT NULL COMMENT 'that were applied since init',
  waiting BIGINT NOT NULL COMMENT 'messages that are not consumed yet',
  blockers INT NOT NULL,
  verdict VARCHAR(8) NOT NULL COMMENT 'whether a person is needed: fine, person, unknown',
  next_command VARCHAR(255) NOT NULL,
  PRIMARY KEY (migration, minute)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
