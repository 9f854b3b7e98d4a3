-- Version 27: up to where the broker had acknowledged what a publisher sent, and which message of each partition was
-- consumed last, so that a topic that ends before, or has other messages there, is found.

CREATE TABLE IF NOT EXISTS acknowledged (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'one past the last message that was acknowledged',
  cut_at BIGINT NULL COMMENT 'where the broker lost messages: nothing is published until a rewind',
  PRIMARY KEY (migration, source, topic_id, partition_no)
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
