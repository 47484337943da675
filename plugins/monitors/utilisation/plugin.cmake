set(needs ENGINE)   # it asks LibTorch's allocator
list(APPEND libraries plugin_runs)
list(APPEND libraries capstan::nvml)
