list(APPEND libraries plugin_tokens)
list(APPEND needs SHARED_CODE)   # its reader is tested by tests of several plugins
