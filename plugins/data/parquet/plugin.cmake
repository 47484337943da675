list(APPEND libraries plugin_tables plugin_records)
