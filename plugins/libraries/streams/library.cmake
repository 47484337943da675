list(APPEND libraries plugin_tables plugin_records capstan::data_parts)
