list(APPEND libraries capstan::nvml)
