list(APPEND libraries plugin_tokens capstan::data_parts)
