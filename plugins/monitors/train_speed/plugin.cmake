list(APPEND libraries plugin_runs)
