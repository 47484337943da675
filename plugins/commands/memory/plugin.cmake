list(APPEND libraries plugin_arguments plugin_runs)
