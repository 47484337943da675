list(APPEND needs SHARED_CODE)   # what it reads is tested by tests of several plugins
list(APPEND libraries plugin_imports)
