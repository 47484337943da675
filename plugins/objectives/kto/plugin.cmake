list(APPEND libraries plugin_tokens)
