list(APPEND libraries plugin_streams)
