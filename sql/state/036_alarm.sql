-- Version 36: alarms that are raised, to whom they were sent, and what they are compared with, so that a restart
-- neither repeats nor forgets one.

CREATE TABLE IF NOT EXISTS alarm (
  migration VARCHAR(48) NOT NULL,
  kind VARCHAR(24) NOT NULL,
  subject VARCHAR(255) NOT NULL COMMENT 'a process, a partition, a source, a lease; empty: the migration',
  message TEXT NOT NULL,
  remedy VARCHAR(255) NOT NULL COMMENT 'the command that goes on from there',
  since DATETIME(6) NOT NULL COMMENT 'when it was seen first',
  raised DATETIME(6) NULL COMMENT 'when it had held for as long as the config says',
  resolved DATETIME(6) NULL,
  PRIMARY KEY (migration, kind, subject)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS alarm_sent (
  migration VARCHAR(48) NOT NULL,
  kind VARCHAR(24) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  receiver VARCHAR(48) NOT NULL,
  sent DATETIME(6) NOT NULL COMMENT 'when this receiver took it last',
  PRIMARY KEY (migration, kind, subject, receiver)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS alarm_seen (
  migration VARCHAR(48) NOT NULL,
  kind VARCHAR(24) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  value VARCHAR(255) NOT NULL COMMENT 'as it was at the last look',
  changed DATETIME(6) NULL COMMENT 'when it became that; NULL: at the first look it was',
  PRIMARY KEY (migration, kind, subject)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
