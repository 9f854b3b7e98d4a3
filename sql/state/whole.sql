-- The whole schema of the state at its last version, for a database that is empty; one that is there gets the numbered
-- steps that it lacks. tests/state/test_whole.py holds the two together.

CREATE TABLE IF NOT EXISTS acknowledged (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'one past the last message that was acknowledged',
  cut_at BIGINT NULL COMMENT 'where the broker lost messages: nothing is published until a rewind',
  PRIMARY KEY (migration, source, topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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

CREATE TABLE IF NOT EXISTS alarm_seen (
  migration VARCHAR(48) NOT NULL,
  kind VARCHAR(24) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  value VARCHAR(255) NOT NULL COMMENT 'as it was at the last look',
  changed DATETIME(6) NULL COMMENT 'when it became that; NULL: at the first look it was',
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

CREATE TABLE IF NOT EXISTS application (
  migration VARCHAR(48) NOT NULL,
  instance VARCHAR(128) NOT NULL COMMENT 'a name of its own for each process of the application',
  version BIGINT UNSIGNED NOT NULL COMMENT 'of the switch that it goes by: nothing it began under an earlier one is open',
  seen DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, instance)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS application_switch (
  migration VARCHAR(48) NOT NULL,
  version BIGINT UNSIGNED NOT NULL COMMENT 'rises with every change',
  side VARCHAR(8) NOT NULL COMMENT 'source or target: which one applications read and write',
  writes VARCHAR(8) NOT NULL COMMENT 'open, or closed while it is switched',
  changed DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  frozen BIGINT NOT NULL DEFAULT '0',
  PRIMARY KEY (migration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS check_difference (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  key_hash BINARY(32) NOT NULL COMMENT 'SHA-256 of key_text',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  kind VARCHAR(16) NOT NULL COMMENT 'missing, extra, different, misplaced, duplicated, twice',
  detail TEXT NOT NULL,
  first_seen DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  last_seen DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  began BIGINT NOT NULL DEFAULT '0',
  PRIMARY KEY (migration, source, table_schema, table_name, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS check_rest (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  low TEXT COMMENT 'JSON list of key texts: the keys above it come next; NULL: those above the copied chunks',
  checked DATETIME(6) NULL COMMENT 'when it last came to the last key',
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS check_run (
  migration VARCHAR(48) NOT NULL,
  finished DATETIME(6) NOT NULL,
  milliseconds BIGINT NOT NULL,
  chunks INT NOT NULL,
  rows_compared BIGINT NOT NULL,
  in_motion BIGINT NOT NULL COMMENT 'keys that kept changing, or that the stream did not come to',
  repaired BIGINT NOT NULL COMMENT 'keys that differed, were refreshed, and agree',
  PRIMARY KEY (migration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS compared (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'keys that only earlier messages changed are known to be equal',
  PRIMARY KEY (migration, topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS consumed (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'end of the consumed prefix; reading goes on here',
  messages BIGINT NOT NULL DEFAULT '0' COMMENT 'consumed since the start',
  row_count BIGINT NOT NULL DEFAULT '0' COMMENT 'row changes in them',
  event_ms BIGINT NOT NULL DEFAULT '0' COMMENT 'commit time at the source of the last change, Unix milliseconds',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  notes BIGINT NOT NULL DEFAULT '0',
  PRIMARY KEY (topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copy_detail (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  chunk INT NOT NULL,
  low TEXT COMMENT 'JSON list of key texts, exclusive; NULL: from the first key',
  high TEXT COMMENT 'JSON list of key texts, inclusive; NULL: to the last key',
  state VARCHAR(16) NOT NULL COMMENT 'planned, copying, done',
  attempt INT NOT NULL DEFAULT '0',
  rows_read BIGINT NOT NULL DEFAULT '0',
  rows_inserted BIGINT NOT NULL DEFAULT '0',
  rows_present BIGINT NOT NULL DEFAULT '0' COMMENT 'keys that were at the target already; left as they are',
  conflicts BIGINT NOT NULL DEFAULT '0' COMMENT 'left to the stream: another row held a unique value',
  taken_out BIGINT NOT NULL DEFAULT '0' COMMENT 'inserted and taken out again, as the delete ledger says',
  bytes_read BIGINT NOT NULL DEFAULT '0',
  started DATETIME(6) NULL,
  finished DATETIME(6) NULL,
  checked DATETIME(6) NULL,
  rows_checked BIGINT NOT NULL DEFAULT '0',
  parked BIGINT NOT NULL DEFAULT '0',
  part INT NOT NULL DEFAULT '0' COMMENT '0: of the copy of the whole table',
  PRIMARY KEY (migration, source, table_schema, table_name, chunk),
  KEY by_check (migration, source, table_schema, table_name, state, checked)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copy_part (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  part INT NOT NULL COMMENT 'its chunks are the rows of copy_detail with this number',
  condition_text TEXT NOT NULL COMMENT 'SQL over the columns of the source',
  begun DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  ended DATETIME(6) NULL COMMENT 'NULL: it is being copied, one of a table at a time',
  PRIMARY KEY (migration, source, table_schema, table_name, part)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copy_place (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  place VARCHAR(200) NOT NULL COMMENT 'target/database.table',
  rows_read BIGINT NOT NULL COMMENT 'of finished chunks, with those that were there already',
  PRIMARY KEY (migration, source, table_schema, table_name, place)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copy_progress (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  rows_read BIGINT NOT NULL COMMENT 'over all runs',
  bytes_read BIGINT NOT NULL,
  rows_estimate BIGINT NOT NULL COMMENT 'by the statistics of the source',
  rows_per_second DOUBLE NOT NULL COMMENT 'during the last minute',
  pace VARCHAR(16) NOT NULL COMMENT 'full, slowed, held, paused, copied',
  chunks INT NOT NULL COMMENT 'that are begun together; 0: none',
  reason TEXT NOT NULL COMMENT 'why not at full pace',
  measured TEXT NOT NULL COMMENT 'JSON list of [server, signal, value]; a value of null is not known',
  updated DATETIME(6) NOT NULL,
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS cutover (
  migration VARCHAR(48) NOT NULL,
  run INT NOT NULL,
  direction VARCHAR(8) NOT NULL COMMENT 'there: to the targets; back: to the sources',
  outcome VARCHAR(12) NOT NULL COMMENT 'running, switched, done or aborted',
  started DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  finished DATETIME(6) NULL,
  freeze_seconds DOUBLE NULL COMMENT 'for which nobody could write',
  PRIMARY KEY (migration, run)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS cutover_step (
  migration VARCHAR(48) NOT NULL,
  run INT NOT NULL,
  entry INT NOT NULL,
  step VARCHAR(64) NOT NULL,
  stage VARCHAR(8) NOT NULL COMMENT 'begun, done or failed',
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  detail MEDIUMTEXT,
  PRIMARY KEY (migration, run, entry)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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
  undo_clauses MEDIUMTEXT COMMENT 'JSON: the clauses of the compensating statement; NULL: there is none',
  before_definition MEDIUMTEXT NOT NULL COMMENT 'in normal form, as the two below',
  after_definition MEDIUMTEXT NOT NULL COMMENT 'empty: the table is not there',
  witness VARCHAR(64) NOT NULL COMMENT 'of a TRUNCATE: the number that the engine gave the table before it',
  algorithm VARCHAR(8) NOT NULL COMMENT 'that the server took on a scratch table',
  lock_mode VARCHAR(10) NOT NULL,
  stage VARCHAR(10) NOT NULL COMMENT 'waiting, begun, new, undoing, old, failed, altered',
  attempts INT NOT NULL DEFAULT '0' COMMENT 'statements that were sent',
  began DATETIME(6) NULL COMMENT 'before the last statement was sent',
  ended DATETIME(6) NULL,
  detail TEXT NOT NULL COMMENT 'why it failed, or what is different',
  PRIMARY KEY (migration, run, shard)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS ending (
  migration VARCHAR(48) NOT NULL,
  process VARCHAR(255) NOT NULL,
  reason TEXT NOT NULL,
  hint TEXT NOT NULL,
  at DATETIME(6) NOT NULL,
  PRIMARY KEY (migration, process)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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
  until_file VARCHAR(255) NOT NULL DEFAULT '' COMMENT 'where the log of the new server ended then',
  until_pos BIGINT UNSIGNED NOT NULL DEFAULT '0',
  PRIMARY KEY (migration, source, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS foreign_write (
  migration VARCHAR(48) NOT NULL COMMENT 'the stream that reads the side where the write was made',
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  key_hash BINARY(32) NOT NULL COMMENT 'SHA-256 of key_text',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts; empty: too many to list, every row of the table',
  kind VARCHAR(8) NOT NULL COMMENT 'foreign: written while the side was standby; late: came when the other was active; unread: a lost server may have it',
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL COMMENT 'coordinate of the last such write',
  seen DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) COMMENT 'when the last one was listed',
  began BIGINT NOT NULL DEFAULT '0',
  PRIMARY KEY (migration, source, table_schema, table_name, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS forgotten (
  migration VARCHAR(48) NOT NULL,
  times BIGINT UNSIGNED NOT NULL,
  because VARCHAR(512) NOT NULL DEFAULT '',
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS halt (
  migration VARCHAR(48) NOT NULL,
  process VARCHAR(255) NOT NULL COMMENT 'publish:SOURCE, consume, consume: TOPIC [N], commit, requeue',
  reason TEXT NOT NULL,
  hint TEXT NOT NULL,
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  since DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  code VARCHAR(16) NOT NULL DEFAULT '',
  message_offset BIGINT NULL,
  PRIMARY KEY (migration, process)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS last_consumed (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  message_offset BIGINT NOT NULL COMMENT 'the last one of the consumed prefix',
  source VARCHAR(48) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS lease (
  migration VARCHAR(48) NOT NULL,
  name VARCHAR(80) NOT NULL COMMENT 'publish:SOURCE, partition:N, commit, cleanup, requeue',
  holder VARCHAR(120) NOT NULL,
  epoch BIGINT UNSIGNED NOT NULL,
  expires DATETIME(6) NOT NULL,
  seconds DOUBLE NULL,
  PRIMARY KEY (migration, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS left_out (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  message_offset BIGINT NOT NULL,
  value LONGBLOB NOT NULL COMMENT 'the message as it is in the topic',
  refusal TEXT NOT NULL COMMENT 'why its partition stood still',
  reason TEXT NOT NULL COMMENT 'why it is left out',
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  began BIGINT NOT NULL DEFAULT '0',
  PRIMARY KEY (topic_id, partition_no, message_offset)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS lost_writes (
  id BIGINT NOT NULL AUTO_INCREMENT,
  migration VARCHAR(48) NOT NULL,
  target VARCHAR(48) NOT NULL,
  database_name VARCHAR(64) NOT NULL,
  what VARCHAR(512) NOT NULL COMMENT 'a partition as topic [number], or a table',
  from_offset BIGINT NOT NULL COMMENT 'the first message that the database no longer had; -1 of a table',
  to_offset BIGINT NOT NULL COMMENT 'one past the last',
  kept_from BIGINT NOT NULL COMMENT 'the first message that is applied again: those before it the broker no longer has',
  found DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  consumed BIGINT NOT NULL DEFAULT '0',
  began BIGINT NOT NULL DEFAULT '0',
  PRIMARY KEY (id),
  KEY of_migration (migration, found)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS membership (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  stage VARCHAR(16) NOT NULL COMMENT 'waiting, joining, joined, removed; a table without a row was there from the beginning',
  incarnation INT NOT NULL DEFAULT '0' COMMENT 'the place from which its changes count, and who wrote that log',
  file VARCHAR(255) NOT NULL DEFAULT '',
  pos BIGINT UNSIGNED NOT NULL DEFAULT '0',
  gtid_set MEDIUMTEXT NOT NULL,
  server_id BIGINT UNSIGNED NOT NULL DEFAULT '0',
  server_uuid VARCHAR(64) NOT NULL DEFAULT '',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration (
  name VARCHAR(48) NOT NULL,
  config LONGTEXT NOT NULL COMMENT 'the config file as it was at init; secrets stand as ${NAME}',
  drain_asked DATETIME(6) NULL COMMENT 'the consumer merges at once when this moves',
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  retry_asked DATETIME(6) NULL,
  hurry_until DATETIME(6) NULL COMMENT 'until then nothing waits to be folded or flushed',
  reverse_of VARCHAR(48) NULL COMMENT 'the migration that this one is the way back of',
  finished DATETIME(6) NULL COMMENT 'nothing of it runs any more',
  summary MEDIUMTEXT COMMENT 'JSON: what the details that were removed added up to',
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS outstanding (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  batches BIGINT UNSIGNED NOT NULL,
  row_count BIGINT UNSIGNED NOT NULL,
  bytes BIGINT UNSIGNED NOT NULL,
  listed MEDIUMTEXT NOT NULL COMMENT 'JSON: the first ones, [id, rows, bytes, where it ends]',
  idle_at DATETIME(6) NULL COMMENT 'when the source was last seen idle with everything delivered',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS oversized (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL,
  operation VARCHAR(8) NOT NULL COMMENT 'INSERT, UPDATE or DELETE',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  message_bytes BIGINT NOT NULL,
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  began BIGINT NOT NULL DEFAULT '0',
  PRIMARY KEY (migration, source, incarnation, file_no, tx, ordinal)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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

CREATE TABLE IF NOT EXISTS phase (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  phase VARCHAR(16) NOT NULL COMMENT 'created, copying, copied',
  attempt INT NOT NULL DEFAULT '0',
  rule_hash CHAR(64) NOT NULL DEFAULT '' COMMENT 'of columns, key and sharding; a resumed copy must match',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  base_hash CHAR(64) NOT NULL DEFAULT '' COMMENT 'as rule_hash, without row conditions; empty: not noted yet',
  reopened TINYINT NOT NULL DEFAULT '0' COMMENT '1: its copy was closed before, and what is in the source log by now may not be readable yet',
  PRIMARY KEY (migration, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS position (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  address VARCHAR(300) NOT NULL,
  server_id BIGINT UNSIGNED NOT NULL,
  server_uuid VARCHAR(64) NOT NULL,
  replica_id BIGINT UNSIGNED NOT NULL,
  incarnation INT NOT NULL,
  file VARCHAR(255) NOT NULL,
  pos BIGINT UNSIGNED NOT NULL,
  gtid_set MEDIUMTEXT NOT NULL,
  event_time DATETIME(6) NULL COMMENT 'commit time of the last delivered transaction at the source',
  batch BIGINT UNSIGNED NOT NULL DEFAULT '0' COMMENT 'last acknowledged batch id; ids only rise',
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  file_created BIGINT UNSIGNED NOT NULL DEFAULT '0' COMMENT 'by the header of its first event, seconds since 1970; 0: not known',
  reach_file BIGINT NOT NULL DEFAULT '0',
  writes BIGINT NOT NULL DEFAULT '0',
  started BIGINT NOT NULL DEFAULT '0',
  beyond_gtids MEDIUMTEXT,
  beyond_newest BIGINT NULL,
  beyond_ends MEDIUMTEXT,
  PRIMARY KEY (migration, source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS reached (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  target VARCHAR(48) NOT NULL,
  database_name VARCHAR(64) NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'the database has what it gets of the messages before',
  PRIMARY KEY (topic_id, partition_no, target, database_name),
  KEY of_migration (migration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS record (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  message_offset BIGINT NOT NULL,
  state TINYINT NOT NULL COMMENT '0 new, 1 consumed, 2 committed',
  source VARCHAR(48) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL COMMENT 'of the last row in the message',
  row_count INT NOT NULL,
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  updated DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (topic_id, partition_no, message_offset),
  KEY by_state (migration, state, updated)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS rewind (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  incarnation INT NOT NULL COMMENT 'that began with it',
  asked TEXT NOT NULL COMMENT 'the place as it was written',
  from_file VARCHAR(255) NOT NULL COMMENT 'the position until then; replayed once the publisher is there again',
  from_pos BIGINT UNSIGNED NOT NULL,
  from_gtid_set MEDIUMTEXT NOT NULL,
  to_file VARCHAR(255) NOT NULL,
  to_pos BIGINT UNSIGNED NOT NULL,
  to_gtid_set MEDIUMTEXT NOT NULL,
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS schema_history (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  incarnation INT NOT NULL COMMENT 'valid from this coordinate on',
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  definition MEDIUMTEXT NOT NULL COMMENT 'JSON: columns, key, unique keys',
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, table_schema, table_name, incarnation, file_no, tx)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS skip_request (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  key_hash BINARY(32) NOT NULL COMMENT 'SHA-256 of key_text',
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  reason TEXT NOT NULL,
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration, source, table_schema, table_name, key_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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

CREATE TABLE IF NOT EXISTS throttle (
  migration VARCHAR(48) NOT NULL,
  paused SMALLINT NOT NULL DEFAULT '0',
  chunks INT NULL COMMENT 'here and below NULL: as the config says',
  min_chunks INT NULL,
  rows_per_second BIGINT NULL,
  max_threads_running BIGINT NULL,
  max_history_length BIGINT NULL,
  max_replica_lag_seconds DOUBLE NULL,
  changed DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (migration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS topic (
  migration VARCHAR(48) NOT NULL,
  name VARCHAR(249) NOT NULL,
  position INT NOT NULL COMMENT 'in the config; 0 takes every table that is not given to another',
  topic_id VARCHAR(36) NOT NULL,
  partitions INT NOT NULL COMMENT 'a change would route keys differently; refused unless drained',
  PRIMARY KEY (migration, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS verification (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  migration VARCHAR(48) NOT NULL,
  started DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  finished DATETIME(6) NULL,
  tables_compared INT NOT NULL DEFAULT '0',
  rows_compared BIGINT NOT NULL DEFAULT '0',
  differences BIGINT NOT NULL DEFAULT '0',
  in_motion BIGINT NOT NULL DEFAULT '0' COMMENT 'keys that kept changing while they were looked at',
  report MEDIUMTEXT COMMENT 'JSON',
  asked MEDIUMTEXT COMMENT 'JSON: tables, rules and settings; NULL: nobody goes on with it',
  sources MEDIUMTEXT COMMENT 'JSON: where each is read, and where its log ended at the start',
  touched DATETIME(6) NULL COMMENT 'when its process was last heard of; NULL: it has none',
  resumed INT NOT NULL DEFAULT '0' COMMENT 'how many processes went on with it',
  consumed MEDIUMTEXT COMMENT 'JSON: topic id, partition and end of its consumed prefix when it began',
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS verification_difference (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  migration VARCHAR(48) NOT NULL,
  verification BIGINT UNSIGNED NOT NULL,
  source VARCHAR(48) NOT NULL,
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  key_text TEXT NOT NULL COMMENT 'JSON list of key texts',
  kind VARCHAR(16) NOT NULL COMMENT 'missing, extra, different, misplaced, duplicated',
  detail TEXT NOT NULL,
  PRIMARY KEY (id),
  KEY by_run (migration, verification)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS verification_progress (
  verification BIGINT UNSIGNED NOT NULL,
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL COMMENT 'of a group, its first table',
  table_schema VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL,
  done TINYINT NOT NULL COMMENT '1: what was found of it; 0: how far it was compared',
  progress LONGTEXT NOT NULL COMMENT 'JSON',
  PRIMARY KEY (verification, source, table_schema, table_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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
  UNIQUE KEY migration (migration, digest),
  KEY migration_2 (migration, sent, copied, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS watermark (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  source VARCHAR(48) NOT NULL,
  incarnation INT NOT NULL,
  file_no BIGINT NOT NULL,
  tx BIGINT NOT NULL,
  ordinal BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (topic_id, partition_no, source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS write_block (
  migration VARCHAR(48) NOT NULL,
  side VARCHAR(8) NOT NULL COMMENT 'source or target',
  server VARCHAR(48) NOT NULL,
  method VARCHAR(16) NOT NULL,
  ending MEDIUMTEXT NOT NULL COMMENT 'JSON: statements that give writes back',
  run INT NOT NULL DEFAULT '0',
  PRIMARY KEY (migration, side, server)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
