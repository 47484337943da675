find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
list(APPEND libraries plugin_tables plugin_tokens ${UTF8PROC_LIBRARY})
list(APPEND needs SHARED_CODE)   # its reader is tested by tests of several plugins
