set(needs ENGINE)   # ranks, their devices and what connects them
list(APPEND libraries plugin_arguments)
