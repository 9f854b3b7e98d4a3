"""Every check, in the order in which they run."""

from __future__ import annotations

from migrate.preflight.capacity import checks as capacity
from migrate.preflight.schema import checks as schema
from migrate.preflight.schema import spread
from migrate.preflight.server import checks as server
from migrate.preflight.topics import checks as topics

FOR_INIT = (
    # each source
    schema.SELECTED,
    server.SESSION_AT_SOURCE,
    server.BINLOG,
    server.DURABLE_SOURCE,
    server.GRANTS_AT_SOURCE,
    server.PREPARED,
    server.WAYS_AT_SOURCE,
    server.LEFT_OUT_OF_BINLOG,
    schema.TABLES,
    schema.CASCADES,
    schema.CASCADES_OUTSIDE,
    schema.FOREIGN_KEYS,
    schema.TRIGGERS,
    schema.GENERATED,
    schema.SESSION_COLUMNS,
    # the plan
    schema.TABLES_OF_TOPICS,
    schema.RULES,
    schema.GROUPS,
    # each target
    server.TARGET,
    server.SESSION_AT_TARGET,
    server.WRITABLE_TARGET,
    server.DURABLE_TARGET,
    schema.EXISTING,
    schema.SHARED,
    schema.LETTER_CASE,
    schema.MIXED_FLAVOURS,
    schema.FOREIGN_KEYS_AT_TARGET,
    schema.TRIGGERS_AT_TARGET,
    schema.EVENTS,
    schema.HIDDEN_TRIGGERS,
    capacity.LOADING,
)
"""Those that `migrate init` runs too."""

BEYOND_INIT = (
    # the plan, and what the state database has of it
    schema.UPDATE_TIMES,
    schema.UNIQUE_KEYS,
    schema.BROADCAST,
    schema.REVERSE_STREAM,
    server.TAKEN_BY_INIT,
    # each source
    server.EXCESS_AT_SOURCE,
    server.VERSION_OF_SOURCE,
    server.CLOCK_OF_SOURCE,
    server.CONNECTIONS_AT_SOURCE,
    server.PACKET_OF_SOURCE,
    server.MODES_OF_SOURCE,
    server.ZONE_OF_SOURCE,
    capacity.VOLUMES,
    capacity.RETENTION_AT_SOURCE,
    capacity.ROW_SIZES,
    schema.COUNTERS_OF_SOURCE,
    schema.SHARDS,
    schema.MISPLACED,
    schema.FILLED_AT_NODES,
    schema.PARTITIONED,
    schema.DEFINITIONS,
    schema.SAMPLES,
    schema.FULL_TEXT_AT_SOURCE,
    # what they have together
    capacity.RETENTION_OF_TOPICS,
    # each target
    server.GRANTS_AT_TARGET,
    server.EXCESS_AT_TARGET,
    server.WAYS_AT_TARGET,
    schema.EXISTING_TABLES,
    schema.TRIAL,
    server.VERSION_OF_TARGET,
    server.CLOCK_OF_TARGET,
    server.CONNECTIONS_AT_TARGET,
    server.PACKET_OF_TARGET,
    server.MODES_OF_TARGET,
    server.ZONE_OF_TARGET,
    schema.CHARSETS,
    schema.FULL_TEXT,
    schema.NEXT_IDS,
    capacity.DISKS,
    # what they have together, and this machine
    spread.GROUPS,
    schema.COUNTERS,
    capacity.SPACE_AT_TARGETS,
    capacity.SPACE_HERE,
    server.WEB,
    server.ENCRYPTION,
    # the state server
    server.STATE,
    server.GRANTS_AT_STATE,
    server.EXCESS_AT_STATE,
    server.WRITABLE_STATE,
    server.DURABLE_STATE,
    server.CLOCK_OF_STATE,
    server.SESSION_AT_STATE,
    server.CONNECTIONS_AT_STATE,
    schema.TRIAL_AT_STATE,
    # Kafka
    topics.KAFKA,
    topics.RIGHTS,
    topics.TOPIC_SETTINGS,
    server.DURABLE_TOPICS,
    topics.STALE_TOPICS,
)
"""Advice, what takes longer to find out, and the servers that init uses at once."""

CHECKS = (*FOR_INIT, *BEYOND_INIT)
