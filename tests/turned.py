"""Servers whose global variables are all other than what a session of the service states."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager

from migrate.mysql.session_settings import MARIADB, MYSQL
from sandbox.database import DatabaseServer

_BOTH: Mapping[str, str | int] = {
    "autocommit": 0,
    "completion_type": 2,
    "innodb_table_locks": 0,
    "innodb_lock_wait_timeout": 1,
    "lock_wait_timeout": 1,
    "character_set_client": "latin1",
    "character_set_results": "latin1",
    "character_set_connection": "latin1",
    "collation_connection": "latin1_german2_ci",
    "character_set_filesystem": "latin1",
    "lc_messages": "de_DE",
    "lc_time_names": "de_DE",
    "time_zone": "+05:30",
    "div_precision_increment": 9,
    "default_week_format": 3,
    "group_concat_max_len": 16,
    "sql_auto_is_null": 1,
    "max_join_size": 1,
    "sql_big_selects": 0,
    "sql_select_limit": 2,
    "sql_safe_updates": 1,
    "max_sort_length": 64,
    "sort_buffer_size": 32768,
    "sql_buffer_result": 1,
    "foreign_key_checks": 0,
    "unique_checks": 0,
    "sql_notes": 0,
    "max_error_count": 0,
    "explicit_defaults_for_timestamp": 0,
    "innodb_strict_mode": 0,
    "default_storage_engine": "MyISAM",
    "sql_quote_show_create": 0,
    "wait_timeout": 1,
    "net_read_timeout": 1,
    "net_write_timeout": 1,
    "low_priority_updates": 1,
    "binlog_format": "STATEMENT",
    "binlog_row_image": "MINIMAL",
}
TURNED: Mapping[str, Mapping[str, str | int | float]] = {
    MYSQL: {
        **_BOTH,
        "transaction_isolation": "SERIALIZABLE",
        "transaction_read_only": 1,
        "default_collation_for_utf8mb4": "utf8mb4_general_ci",
        "sql_mode": "ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,TRADITIONAL",
        "block_encryption_mode": "aes-256-cbc",
        "max_points_in_geometry": 3,
        "windowing_use_high_precision": 0,
        "cte_max_recursion_depth": 0,
        "optimizer_switch": "use_invisible_indexes=on,subquery_to_derived=on,index_merge=off",
        "range_optimizer_max_mem_size": 1,
        "enable_cascade_triggers": 1,
        "restrict_fk_on_non_standard_key": 1,
        "sql_generate_invisible_primary_key": 1,
        "sql_require_primary_key": 1,
        "old_alter_table": 1,
        "show_gipk_in_create_table_and_information_schema": 0,
        "information_schema_stats_expiry": 86400,
        "max_execution_time": 1,
        "binlog_row_value_options": "PARTIAL_JSON",
    },
    MARIADB: {
        **_BOTH,
        "tx_isolation": "SERIALIZABLE",
        "tx_read_only": 1,
        "transaction_isolation": "SERIALIZABLE",
        "transaction_read_only": 1,
        "character_set_collations": "utf8mb4=utf8mb4_general_ci",
        "block_encryption_mode": "aes-256-cbc",
        "mhnsw_default_distance": "cosine",
        "innodb_snapshot_isolation": 1,
        "sql_mode": "ORACLE,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,EMPTY_STRING_IS_NULL,TRADITIONAL",
        "old_mode": "NO_DUP_KEY_WARNINGS_WITH_IGNORE,ZERO_DATE_TIME_CAST",
        "old": 1,
        "default_regex_flags": "DOTALL,EXTENDED",
        "standard_compliant_cte": 0,
        "max_recursive_iterations": 0,
        "sql_if_exists": 1,
        "optimizer_switch": "cset_narrowing=on,not_null_range_scan=on,derived_merge=off",
        "in_predicate_conversion_threshold": 2,
        "system_versioning_asof": "2000-01-01 00:00:00",
        "system_versioning_insert_history": 1,
        "system_versioning_alter_history": "ERROR",
        "wsrep_dirty_reads": 1,
        "wsrep_osu_method": "RSU",
        "check_constraint_checks": 0,
        "note_verbosity": "unusable_keys",
        "enforce_storage_engine": "MyISAM",
        "alter_algorithm": "COPY",
        "max_statement_time": 0.001,
        "idle_transaction_timeout": 1,
        "idle_readonly_transaction_timeout": 1,
        "idle_write_transaction_timeout": 1,
    },
}
"""By kind of server, of any version; each differs from the stated value."""
WITHOUT_GLOBAL = frozenset(
    {"sql_log_bin", "use_secondary_engine", "show_create_table_verbosity", "show_create_table_skip_secondary_engine"}
    | {"query_cache_type"}  # cannot be turned on where the server started without
)
JUDGED = frozenset(
    {"binlog_format", "binlog_row_image", "binlog_row_value_options", "transaction_read_only", "tx_read_only"}
)
"""What preflight wants as it is: applications write by the global value."""


def turned_at(server: DatabaseServer) -> dict[str, str | int | float]:
    """Those that a server of its version has."""
    known = {str(name).lower() for name, _ in server.query("SHOW GLOBAL VARIABLES")}
    return {name: value for name, value in TURNED[str(server.flavour)].items() if name in known}


@contextmanager
def turned(server: DatabaseServer, but: Collection[str] = ()) -> Iterator[None]:
    """Every global of `TURNED`, but for some, until the block ends. Sessions that are open keep their values."""
    values = {name: value for name, value in turned_at(server).items() if name not in but}
    with closing(server.connect()) as own, own.cursor() as cursor:
        before = {}
        for name in values:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            before[name] = cursor.fetchone()[0]  # type: ignore[index]
        try:
            for name, value in values.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))
            yield
        finally:
            for name, value in before.items():
                bare = name == "system_versioning_asof"
                cursor.execute(f"SET GLOBAL {name} = {'DEFAULT' if bare else '%s'}", () if bare else (value,))
            cursor.execute("SET GLOBAL sql_big_selects = 1")  # max_join_size turned it off
