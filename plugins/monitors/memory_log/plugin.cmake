list(APPEND libraries plugin_runs)
list(APPEND libraries capstan::nvml)
