set(needs ENGINE)   # a model, and the ranks that share it
list(APPEND libraries plugin_asking)
