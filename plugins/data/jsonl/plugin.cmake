list(APPEND libraries plugin_records)
