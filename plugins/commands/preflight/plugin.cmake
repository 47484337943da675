set(needs ENGINE)   # ranks, their devices and what connects them
list(APPEND libraries capstan::nvml)
