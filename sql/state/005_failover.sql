-- Version 5: changes of the server behind a source, and whether a verification has yet to settle what they left in doubt.

CREATE TABLE IF NOT EXISTS failover (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  incarnation INT NOT NULL COMMENT 'that began with it',
  from_server VARCHAR(400) NOT NULL COMMENT 'address, server id, UUID',
  to_server VARCHAR(400) NOT NULL,
  scheme VARCHAR(8) NOT NULL COMMENT 'gtid, time',
  doubt TEXT NOT NULL COMMENT 'why the target may hold what the new server lacks; empty: it cannot',
  verified BIGINT UNSIGNED NULL COMMENT 'the verification since that found nothing different',
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
