-- Version 29: how often what was known to be equal was forgotten, so that a verification during which that happens
-- certifies nothing.

CREATE TABLE IF NOT EXISTS forgotten (
  migration VARCHAR(48) NOT NULL,
  times BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (migration)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
