set(needs ENGINE)
list(APPEND libraries plugin_pages)
