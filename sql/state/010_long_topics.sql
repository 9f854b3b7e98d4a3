-- Version 10: a note of a partition that stands still holds the name of its topic, which has up to 200 characters.

ALTER TABLE halt MODIFY process VARCHAR(255) NOT NULL COMMENT 'publish:SOURCE, consume, consume: TOPIC [N], commit, requeue';
