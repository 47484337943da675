list(APPEND libraries plugin_pages)   # the style of its page
