"""What a session of the service states, whatever the servers' defaults are: one list for MySQL and MariaDB.

A variable belongs to `STATED` when a statement of the service gives another result, another error or none under
another value of it. All other session variables are in `LEFT`, with the reason; a test compares both with the
variables of the running servers. Manuals: MySQL reference manual and MariaDB documentation, on the page of each
variable (`manual`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

MARIADB, MYSQL, MYSQL_5 = "mariadb", "mysql", "mysql 5"
"""Kinds of servers; MYSQL_5 is MySQL before 8.0."""

SQL_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"
"""ALLOW_INVALID_DATES, and no NO_ZERO_*: what a source stored under a laxer mode must be storable as it is."""

COMPILED = None
"""Stands for the value that the server was built with, where that differs by version."""


class Page(Enum):
    """A page of the manuals: MySQL's, MariaDB's."""

    SERVER = ("server-system-variables", "server-system-variables")
    INNODB = ("innodb-parameters", "innodb-system-variables")
    BINLOG = ("replication-options-binary-log", "replication-and-binary-log-system-variables")
    GALERA = ("", "galera-cluster-system-variables")
    VERSIONED = ("", "system-versioned-tables")


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable that every session states, on the servers that have it."""

    name: str
    value: str | int | None  # COMPILED where None
    why: str  # which result depends on it
    page: Page = Page.SERVER
    on: frozenset[str] = frozenset({MARIADB, MYSQL, MYSQL_5})
    unset: str = ""  # why another value does no harm where the account may not set it; "" where preflight refuses it
    also: tuple[str, ...] = ()  # other values that do no harm

    def manual(self, flavour: str) -> str:
        """Where the manual of a flavour describes it."""
        mysql, mariadb = self.page.value
        if flavour == MARIADB:
            return f"https://mariadb.com/kb/en/{mariadb}/#{self.name}"
        return f"https://dev.mysql.com/doc/refman/8.4/en/{mysql}.html#sysvar_{self.name}"

    @property
    def makes(self) -> bool:
        """Whether only statements that make tables depend on it."""
        return self.why in (_MADE, _REFUSED_TABLE)


_SAME_ROWS = "more or fewer rows are read or written"
_EXPRESSION = "generated columns, defaults and checks are computed with it"
_DEFINITION = "SHOW CREATE TABLE writes it another way"
_LIMIT = "a statement fails, or ends early"
_WARNING = "what the server warns of decides whether a write is kept"
_MADE = "tables are made in another way"
_REFUSED_TABLE = "a table whose key is a unique key is refused"
_ONLY_MARIADB, _ONLY_MYSQL = frozenset({MARIADB}), frozenset({MYSQL, MYSQL_5})
_OF_OUR_WRITES = "the check 'binlog' judges the server's own value before anything reads our writes from a log"
_OF_INIT_CONNECT = "only init_connect may have set it, by what this account may"
_LOUD = "the error that tells of it is never tried again"
_LABELS = "labels that SHOW CREATE TABLE does not print are asked for by a query on itself"
_SERVER, _INNODB, _BINLOG = Page.SERVER, Page.INNODB, Page.BINLOG

STATED: tuple[Setting, ...] = (
    # transactions
    Setting("autocommit", 1, "else a read leaves a transaction open, with its locks"),
    Setting("completion_type", 0, "else COMMIT begins another transaction, or ends the session"),
    Setting("transaction_isolation", "READ-COMMITTED", "what a SELECT sees, which gaps are locked"),
    Setting("tx_isolation", "READ-COMMITTED", "the same, by its older name"),
    Setting("transaction_read_only", 0, _LIMIT),
    Setting("tx_read_only", 0, _LIMIT),
    Setting("innodb_snapshot_isolation", 0, "a locking read fails with 1020", _INNODB, _ONLY_MARIADB),
    Setting("innodb_support_xa", 1, "a crash parts a table from its log", _INNODB, frozenset({MYSQL_5})),
    Setting("innodb_table_locks", 1, "what LOCK TABLES waits for", _INNODB),
    Setting("innodb_lock_wait_timeout", 50, _LIMIT, _INNODB),
    Setting("lock_wait_timeout", 86400, _LIMIT),
    # text and language
    Setting("character_set_client", "utf8mb4", "how the server reads a statement"),
    Setting("character_set_results", "utf8mb4", "in which bytes values come"),
    Setting("character_set_connection", "utf8mb4", "the character set of literals"),
    Setting("collation_connection", "utf8mb4_0900_ai_ci", "how literals compare", on=frozenset({MYSQL})),
    Setting("collation_connection", "utf8mb4_general_ci", "how literals compare", on=frozenset({MARIADB, MYSQL_5})),
    Setting("default_collation_for_utf8mb4", "utf8mb4_0900_ai_ci", _MADE, on=_ONLY_MYSQL),
    Setting("character_set_collations", COMPILED, _MADE, on=_ONLY_MARIADB),
    Setting("character_set_filesystem", "binary", "the name in LOAD DATA", unset="the name that is used is ASCII"),
    Setting("lc_messages", "en_US", "the language of what a person reads in logs"),
    Setting("lc_time_names", "en_US", _EXPRESSION),
    # what statements and expressions mean
    Setting("sql_mode", SQL_MODE, "what is valid, and how it is read"),
    Setting("time_zone", "+00:00", "how TIMESTAMP is read and written"),
    Setting("timestamp", "DEFAULT", "NOW does not move, and no lease runs out", unset=_OF_INIT_CONNECT),
    Setting("old_mode", COMPILED, "what IGNORE and casts do", on=_ONLY_MARIADB),
    Setting("old", 0, "what index hints do", on=_ONLY_MARIADB),
    Setting("new", 0, "reserved words and types of older servers", on=frozenset({MYSQL, MYSQL_5})),
    Setting("div_precision_increment", 4, _EXPRESSION),
    Setting("default_week_format", 0, _EXPRESSION),
    Setting("group_concat_max_len", 1048576, _EXPRESSION),
    Setting("block_encryption_mode", "aes-128-ecb", _EXPRESSION),
    Setting("default_regex_flags", "", _EXPRESSION, on=_ONLY_MARIADB),
    Setting("max_points_in_geometry", 65536, _EXPRESSION, on=_ONLY_MYSQL),
    Setting("windowing_use_high_precision", 1, _EXPRESSION, on=_ONLY_MYSQL),
    Setting("sql_auto_is_null", 0, "'key IS NULL' finds the row inserted last"),
    Setting("standard_compliant_cte", 1, _SAME_ROWS, on=_ONLY_MARIADB),
    Setting("cte_max_recursion_depth", 1000, _LABELS, on=frozenset({MYSQL})),
    Setting("max_recursive_iterations", 1000, _LABELS, on=_ONLY_MARIADB),
    Setting("sql_if_exists", 0, "DROP and ALTER pass over what is not there", on=_ONLY_MARIADB),
    # which rows
    Setting("max_join_size", 18446744073709551615, _LIMIT),
    Setting("sql_big_selects", 1, _LIMIT),  # behind max_join_size, which turns it off
    Setting("sql_select_limit", 18446744073709551615, _SAME_ROWS),
    Setting("sql_safe_updates", 0, _LIMIT),
    Setting("optimizer_switch", COMPILED, "a server's defects of single switches lose or add rows"),
    Setting("in_predicate_conversion_threshold", 1000, "IN lists become joins", on=_ONLY_MARIADB),
    Setting("range_optimizer_max_mem_size", 0, "a warning (3170), which is an error", on=_ONLY_MYSQL),
    Setting("use_secondary_engine", "OFF", "rows of a copy that lags behind", on=_ONLY_MYSQL),
    Setting("query_cache_type", 0, "rows of an earlier SELECT"),
    Setting("system_versioning_asof", "DEFAULT", "rows of the past", Page.VERSIONED, _ONLY_MARIADB),
    Setting("system_versioning_insert_history", 0, "who sets row_start", Page.VERSIONED, _ONLY_MARIADB),
    Setting("system_versioning_alter_history", "KEEP", "ALTER is refused", Page.VERSIONED, _ONLY_MARIADB),
    Setting("max_sort_length", 16384, "the order of long keys"),
    Setting("sort_buffer_size", 2097152, "1038 for a longer max_sort_length"),
    Setting("sql_buffer_result", 0, "a streamed result is stored first"),
    Setting("wsrep_dirty_reads", 0, "rows of a node outside of its cluster", Page.GALERA, _ONLY_MARIADB),
    Setting("wsrep_osu_method", "TOI", "a table is made on one node only", Page.GALERA, _ONLY_MARIADB),
    # checks
    Setting("foreign_key_checks", 1, _LIMIT),
    Setting("unique_checks", 1, "duplicates of a unique key are not found"),
    Setting("check_constraint_checks", 1, "rows that a CHECK forbids", on=_ONLY_MARIADB),
    Setting("enable_cascade_triggers", 0, "triggers of other tables run", on=_ONLY_MYSQL),
    Setting("restrict_fk_on_non_standard_key", 0, "a definition that a source has is refused", on=_ONLY_MYSQL),
    Setting("sql_notes", 1, _WARNING),  # a DECIMAL that is cut is a note
    Setting("note_verbosity", COMPILED, _WARNING, on=_ONLY_MARIADB),
    Setting("max_error_count", 65535, _WARNING, unset="more warnings than the server keeps are an error"),
    # definitions
    Setting("explicit_defaults_for_timestamp", 1, _MADE),
    Setting("innodb_strict_mode", 1, _MADE, _INNODB, unset="what it would refuse is a warning, which is an error"),
    Setting("default_storage_engine", "InnoDB", _MADE),
    Setting("enforce_storage_engine", "", _MADE, on=_ONLY_MARIADB, also=("innodb",)),
    Setting("sql_generate_invisible_primary_key", 0, _MADE, on=_ONLY_MYSQL),
    Setting("sql_require_primary_key", 0, _REFUSED_TABLE, on=_ONLY_MYSQL),
    Setting("innodb_compression_default", 0, _MADE, _INNODB, _ONLY_MARIADB),  # 1005 for some row formats
    Setting("alter_algorithm", "DEFAULT", _MADE, on=_ONLY_MARIADB),
    Setting("old_alter_table", 0, _MADE, on=_ONLY_MYSQL),
    Setting("mhnsw_default_distance", COMPILED, "what a vector index finds", on=_ONLY_MARIADB),
    Setting("information_schema_stats_expiry", 0, "sizes of up to a day ago bound pages", on=frozenset({MYSQL})),
    Setting("sql_quote_show_create", 1, _DEFINITION),
    Setting("show_gipk_in_create_table_and_information_schema", 1, "hides a key column", on=_ONLY_MYSQL),
    Setting("show_create_table_verbosity", 0, _DEFINITION, on=_ONLY_MYSQL),
    Setting("show_create_table_skip_secondary_engine", 0, _DEFINITION, on=_ONLY_MYSQL),
    Setting("show_old_temporals", 0, _DEFINITION, on=_ONLY_MYSQL),
    # limits
    Setting("max_execution_time", 0, _LIMIT, on=_ONLY_MYSQL),
    Setting("max_statement_time", 0, _LIMIT, on=_ONLY_MARIADB),
    Setting("max_session_mem_used", 9223372036854775807, "1290, as of a read-only server", on=_ONLY_MARIADB),
    Setting("tmp_disk_table_size", 18446744073709551615, "1114, as of a full disk", on=_ONLY_MARIADB),
    Setting("max_tmp_session_space_usage", 0, _LIMIT, on=_ONLY_MARIADB),
    Setting("connection_memory_limit", 18446744073709551615, _LIMIT, on=_ONLY_MYSQL, unset=_LOUD),
    Setting("parser_max_mem_size", 18446744073709551615, _LIMIT, on=_ONLY_MYSQL, unset=_LOUD),
    Setting("wait_timeout", 28800, "the session ends while it waits"),
    Setting("idle_transaction_timeout", 0, "the session ends while it waits", on=_ONLY_MARIADB),
    Setting("idle_readonly_transaction_timeout", 0, "the session ends while it waits", on=_ONLY_MARIADB),
    Setting("idle_write_transaction_timeout", 0, "the session ends while it waits", on=_ONLY_MARIADB),
    Setting("net_read_timeout", 30, "the session ends while it waits"),
    Setting("net_write_timeout", 60, "the session ends while it waits"),
    Setting("low_priority_updates", 0, "who waits for table locks", unset="only engines that lock whole tables mind"),
    # our own writes in the log of a server
    Setting("binlog_format", "ROW", "our writes in its log", _BINLOG, unset=_OF_OUR_WRITES),
    Setting("binlog_row_image", "FULL", "our writes in its log", _BINLOG, unset=_OF_OUR_WRITES),
    Setting("binlog_row_value_options", "", "our writes in its log", _BINLOG, _ONLY_MYSQL, unset=_OF_OUR_WRITES),
    Setting("sql_log_bin", 1, "our writes in its log", _BINLOG, unset="it has no global value"),
)

_OFF = "batched_key_access hypergraph_optimizer subquery_to_derived use_invisible_indexes"
_ON = """
    block_nested_loop condition_fanout_filter derived_condition_pushdown derived_merge duplicateweedout
    engine_condition_pushdown firstmatch hash_join hash_set_operations index_condition_pushdown index_merge
    index_merge_intersection index_merge_sort_union index_merge_union loosescan materialization mrr mrr_cost_based
    prefer_ordering_index semijoin skip_scan subquery_materialization_cost_based use_index_extensions"""
MYSQL_SWITCHES: Mapping[str, str] = {**dict.fromkeys(_OFF.split(), "off"), **dict.fromkeys(_ON.split(), "on")}
"""What MySQL's switches are as built (its manual, "Switchable Optimizations"); 'default' stands for the global value.
MariaDB says it itself, in information_schema.SYSTEM_VARIABLES."""

_PLAN = "chooses how a result is found, never the result"
_MEMORY = "bounds or places memory and disk; what reaches a limit fails by its number, or is a NULL that is looked for"
_LOGS = "what the server logs or measures"
_OTHER_ENGINES = "of engines whose tables are not migrated"
_UNUSED = "of statements that the service does not send, or whose answer it does not read"
_OF_SESSION = "has no global value; nobody but the session itself sets it"
_THEIRS = "the administrator's choice for new tables and clusters, which the service's tables follow"
_CLIENT = "of protocol features that the driver does not ask for"

_LEFT: Mapping[str, str] = {
    _PLAN: """
        eq_range_index_dive_limit expensive_subquery_limit join_buffer_size join_buffer_space_limit join_cache_level
        max_length_for_sort_data max_rowid_filter_size max_seeks_for_key mrr_buffer_size
        optimizer_adjust_secondary_key_costs optimizer_extra_pruning_depth optimizer_join_limit_pref_ratio
        optimizer_max_sel_arg_weight optimizer_max_sel_args optimizer_max_subgraph_pairs optimizer_prune_level
        optimizer_search_depth optimizer_selectivity_sampling_limit optimizer_use_condition_selectivity
        optimizer_disk_read_cost optimizer_disk_read_ratio optimizer_index_block_copy_cost optimizer_key_compare_cost
        optimizer_key_copy_cost optimizer_key_lookup_cost optimizer_key_next_find_cost optimizer_row_copy_cost
        optimizer_row_lookup_cost optimizer_row_next_find_cost optimizer_rowid_compare_cost optimizer_rowid_copy_cost
        optimizer_scan_setup_cost optimizer_where_cost new_mode multi_range_count
        rowid_merge_buff_size use_stat_tables secondary_engine_cost_threshold deadlock_search_depth_long
        deadlock_search_depth_short deadlock_timeout_long deadlock_timeout_short""",
    _MEMORY: """
        big_tables bulk_insert_buffer_size connection_memory_chunk_size global_connection_memory_tracking
        histogram_generation_max_mem_size innodb_ddl_buffer_size innodb_ddl_threads innodb_parallel_read_threads
        innodb_tmpdir internal_tmp_mem_storage_engine max_allowed_packet max_heap_table_size net_buffer_length
        preload_buffer_size query_alloc_block_size query_prealloc_size range_alloc_block_size read_buffer_size
        read_rnd_buffer_size set_operations_buffer_size tmp_memory_table_size tmp_table_size
        transaction_alloc_block_size transaction_prealloc_size max_user_connections tcp_nodelay net_retry_count
        thread_pool_priority max_tmp_tables""",
    _LOGS: """
        binlog_alter_two_phase binlog_annotate_row_events binlog_rows_query_log_events binlog_transaction_compression
        binlog_transaction_compression_level_zstd log_disabled_statements log_queries_not_using_indexes
        log_slow_admin_statements log_slow_always_query_time log_slow_disabled_statements log_slow_filter
        log_slow_max_warnings log_slow_min_examined_row_limit log_slow_query log_slow_query_time log_slow_rate_limit
        log_slow_slave_statements log_slow_verbosity log_warnings long_query_time min_examined_row_limit
        optimizer_trace optimizer_trace_features optimizer_trace_limit optimizer_trace_max_mem_size
        optimizer_trace_offset profiling profiling_history_size slow_query_log sql_log_off sql_warnings
        terminology_use_previous transaction_write_set_extraction optimizer_record_context""",
    _OTHER_ENGINES: """
        aria_repair_threads aria_sort_buffer_size aria_stats_method binlog_direct_non_transactional_updates
        keep_files_on_create max_delayed_threads max_insert_delayed_threads myisam_repair_threads
        myisam_sort_buffer_size myisam_stats_method transaction_allow_batching external_table_secondary_storage_engine
        external_table_storage_engine enable_secondary_engine_statistics""",
    _UNUSED: """
        analyze_max_length analyze_sample_percentage default_tmp_storage_engine end_markers_in_json explain_format
        explain_json_format_version generated_random_password_length histogram_size histogram_type max_relay_log_size
        max_sp_recursion_depth old_passwords print_identified_with_as_hex progress_report_time select_into_buffer_size
        select_into_disk_sync select_into_disk_sync_delay sql_slave_skip_counter updatable_views_with_limit
        xa_detach_on_prepare interactive_timeout query_cache_strip_comments query_cache_wlock_invalidate
        mhnsw_ef_search create_tmp_table_binlog_formats max_open_cursors path""",
    _OF_SESSION: """
        default_master_connection error_count external_user gtid_next gtid_seq_no identity immediate_server_version
        in_transaction insert_id last_gtid last_insert_id original_commit_timestamp original_server_version proxy_user
        pseudo_replica_mode pseudo_slave_mode pseudo_thread_id rand_seed1 rand_seed2 rbr_exec_mode require_row_format
        skip_parallel_replication skip_replication warning_count wsrep_gtid_seq_no""",
    _THEIRS: """
        auto_increment_increment auto_increment_offset character_set_database character_set_server collation_database
        collation_server column_compression_threshold column_compression_zlib_level column_compression_zlib_strategy
        column_compression_zlib_wrap default_table_encryption group_replication_consistency gtid_domain_id
        mhnsw_default_m innodb_default_encryption_key_id
        innodb_ft_enable_stopword innodb_ft_user_stopword_table server_id storage_engine wsrep_causal_reads wsrep_on
        wsrep_retry_autocommit wsrep_sync_wait wsrep_trx_fragment_size wsrep_trx_fragment_unit""",
    _CLIENT: """
        resultset_metadata session_track_gtids session_track_schema session_track_state_change
        session_track_system_variables session_track_transaction_info redirect_url""",
}

LEFT: Mapping[str, str] = {name: why for why, names in _LEFT.items() for name in names.split()}
"""Session variables that are as the server has them, and why that does no harm."""
