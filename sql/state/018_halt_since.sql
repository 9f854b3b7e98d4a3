-- Version 18: since when something stands still; `at` is its last try.

ALTER TABLE halt ADD COLUMN since DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6);
