list(APPEND libraries plugin_chat_template plugin_tokens capstan::data_parts)
