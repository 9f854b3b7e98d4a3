-- Version 11: messages that cannot be applied and that a person has decided to leave out, with their bytes.

CREATE TABLE IF NOT EXISTS left_out (
  migration VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  message_offset BIGINT NOT NULL,
  value LONGBLOB NOT NULL COMMENT 'the message as it is in the topic',
  refusal TEXT NOT NULL COMMENT 'why its partition stood still',
  reason TEXT NOT NULL COMMENT 'why it is left out',
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (topic_id, partition_no, message_offset)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
