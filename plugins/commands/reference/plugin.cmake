list(APPEND libraries plugin_arguments)
