"""Servers whose global variables are all other than what a session of the service states."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager

import pymysql

from migrate.mysql.errors import number
from migrate.mysql.session_settings import LEFT, MARIADB, MYSQL, STATED
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
        "connection_memory_limit": 2097152,
        "parser_max_mem_size": 10000000,
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
        "innodb_compression_default": 1,
        "max_statement_time": 0.001,
        "max_session_mem_used": 262144,
        "tmp_disk_table_size": 1024,
        "max_tmp_session_space_usage": 65536,
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
_LEAST = """
    bulk_insert_buffer_size eq_range_index_dive_limit join_buffer_size max_delayed_threads max_heap_table_size
    max_insert_delayed_threads max_length_for_sort_data myisam_sort_buffer_size net_retry_count optimizer_prune_level
    optimizer_search_depth optimizer_trace_max_mem_size preload_buffer_size profiling_history_size
    query_alloc_block_size read_buffer_size read_rnd_buffer_size session_track_schema
    tmp_table_size transaction_alloc_block_size transaction_prealloc_size max_seeks_for_key interactive_timeout
    innodb_ft_enable_stopword
    analyze_max_length analyze_sample_percentage aria_sort_buffer_size binlog_annotate_row_events
    column_compression_threshold column_compression_zlib_level deadlock_search_depth_long deadlock_search_depth_short
    deadlock_timeout_long deadlock_timeout_short expensive_subquery_limit histogram_size join_buffer_space_limit
    join_cache_level max_rowid_filter_size max_tmp_tables mhnsw_default_m mhnsw_ef_search
    mrr_buffer_size optimizer_extra_pruning_depth optimizer_max_sel_arg_weight optimizer_max_sel_args
    optimizer_scan_setup_cost optimizer_where_cost progress_report_time rowid_merge_buff_size tmp_memory_table_size
    wsrep_retry_autocommit
    binlog_transaction_compression_level_zstd connection_memory_chunk_size enable_secondary_engine_statistics
    generated_random_password_length histogram_generation_max_mem_size innodb_ddl_buffer_size innodb_ddl_threads
    innodb_parallel_read_threads optimizer_max_subgraph_pairs optimizer_trace_limit optimizer_trace_offset
    secondary_engine_cost_threshold select_into_buffer_size set_operations_buffer_size xa_detach_on_prepare"""
"""Servers take the least that they know for 0."""
_ON = """
    big_tables binlog_direct_non_transactional_updates keep_files_on_create max_sp_recursion_depth
    min_examined_row_limit profiling session_track_state_change sql_log_off sql_slave_skip_counter sql_warnings
    optimizer_trace binlog_alter_two_phase column_compression_zlib_wrap old_passwords
    optimizer_join_limit_pref_ratio optimizer_use_condition_selectivity query_cache_strip_comments
    query_cache_wlock_invalidate wsrep_causal_reads wsrep_sync_wait
    binlog_rows_query_log_events binlog_transaction_compression end_markers_in_json explain_json_format_version
    global_connection_memory_tracking print_identified_with_as_hex select_into_disk_sync
    select_into_disk_sync_delay"""
LEFT_TURNED: Mapping[str, str | int] = {
    **dict.fromkeys(_LEAST.split(), 0),
    **dict.fromkeys(_ON.split(), 1),
    "auto_increment_increment": 7,
    "auto_increment_offset": 3,
    "character_set_server": "latin1",
    "character_set_database": "latin1",
    "collation_server": "latin1_german2_ci",
    "collation_database": "latin1_german2_ci",
    "updatable_views_with_limit": "NO",
    "max_relay_log_size": 8192,
    "query_prealloc_size": 65536,
    "myisam_stats_method": "nulls_equal",
    "myisam_repair_threads": 2,
    "aria_stats_method": "nulls_equal",
    "aria_repair_threads": 2,
    "column_compression_zlib_strategy": "FILTERED",
    "gtid_domain_id": 1,
    "histogram_type": "SINGLE_PREC_HB",
    "innodb_default_encryption_key_id": 2,
    "optimizer_adjust_secondary_key_costs": "",
    "optimizer_selectivity_sampling_limit": 10,
    "thread_pool_priority": "high",
    "use_stat_tables": "NEVER",
    "explain_format": "JSON",
    "group_replication_consistency": "EVENTUAL",
    "internal_tmp_mem_storage_engine": "MEMORY",
    "optimizer_trace_features": "greedy_search=off,range_optimizer=off,dynamic_range=off,repeated_subselect=off",
    "terminology_use_previous": "BEFORE_8_0_26",
}
"""Other values of what sessions leave as it is, on the servers that have it: nothing becomes another thing by them."""
_NOT_TURNED: Mapping[str, str] = {
    "of the server, not of statements": "server_id wsrep_on max_user_connections max_allowed_packet net_buffer_length",
    "another name of default_storage_engine": "storage_engine",
    "no table can be made without a keyring": "default_table_encryption",
    "names what has to be there": """
        default_tmp_storage_engine external_table_storage_engine external_table_secondary_storage_engine innodb_tmpdir
        innodb_ft_user_stopword_table redirect_url""",
    "has one value": "range_alloc_block_size new_mode",
    "nothing asks for it": "session_track_system_variables session_track_transaction_info session_track_gtids",
    "shown as a global, and is none": "tcp_nodelay rbr_exec_mode",
    "needs a cluster": "wsrep_trx_fragment_size wsrep_trx_fragment_unit",
}
NOT_TURNED = frozenset(name for names in _NOT_TURNED.values() for name in names.split())
_NOT_OF_SESSIONS = frozenset({1229, 1238})  # global, read-only


def of_sessions(server: DatabaseServer) -> set[str]:
    """Every variable that has a value of its own in a session, by trying to set it."""
    found = set()
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES")
        for name, _ in cursor.fetchall():
            try:
                cursor.execute(f"SET SESSION {name} = @@SESSION.{name}")
            except pymysql.MySQLError as error:
                if number(error) in _NOT_OF_SESSIONS:
                    continue
            found.add(str(name).lower())
    return found


def unjudged(server: DatabaseServer) -> list[str]:
    """The variables of sessions at a server that the service neither states nor leaves for a reason."""
    return sorted(of_sessions(server) - {one.name for one in STATED} - LEFT.keys())


def left_at(server: DatabaseServer) -> set[str]:
    """The variables of `LEFT` that have a global value at a server, but for those of its logs of slow statements."""
    known = {str(name).lower() for name, _ in server.query("SHOW GLOBAL VARIABLES")}
    logs = {name for name in LEFT if name.startswith(("log_", "slow_query_log", "long_query_time"))}
    return LEFT.keys() & known - logs - NOT_TURNED


def turned_at(server: DatabaseServer) -> dict[str, str | int | float]:
    """Those that a server of its version has."""
    known = {str(name).lower() for name, _ in server.query("SHOW GLOBAL VARIABLES")}
    return {name: value for name, value in TURNED[str(server.flavour)].items() if name in known}


@contextmanager
def turned(server: DatabaseServer, but: Collection[str] = (), left: bool = False) -> Iterator[None]:
    """Every global of `TURNED`, but for some, until the block ends. Sessions that are open keep their values.

    left: those of `LEFT_TURNED` too.
    """
    values = {name: value for name, value in turned_at(server).items() if name not in but}
    if left:
        values |= {name: LEFT_TURNED[name] for name in left_at(server)}
    with closing(server.connect()) as own, own.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")  # the least for 0, and no error
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
