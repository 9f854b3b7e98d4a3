-- Whether a stream may write in this database (invariant standby-only). One row for each stream that writes here, made by
-- `migrate init`; a cutover changes it, under a lock that waits for the stream's transactions in flight.

CREATE TABLE _migrate_role (
  migration VARCHAR(48) NOT NULL COMMENT 'the stream that writes here',
  role VARCHAR(8) NOT NULL COMMENT 'standby: the stream writes; active: applications do; frozen: neither',
  version BIGINT NOT NULL COMMENT 'of the switch that applications read, when the role was set',
  writes BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'rises with every change, so each stands in the binlog',
  PRIMARY KEY (migration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
