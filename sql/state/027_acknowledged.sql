-- Version 27: up to where the broker had acknowledged what a publisher sent, so that a topic that ends before is found.

CREATE TABLE IF NOT EXISTS acknowledged (
  migration VARCHAR(48) NOT NULL,
  source VARCHAR(48) NOT NULL,
  topic_id VARCHAR(36) NOT NULL,
  partition_no INT NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'one past the last message that was acknowledged',
  PRIMARY KEY (migration, source, topic_id, partition_no)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
