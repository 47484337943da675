find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
list(APPEND libraries ${UTF8PROC_LIBRARY})
