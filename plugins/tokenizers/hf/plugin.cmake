find_library(ONIG_LIBRARY onig REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
list(APPEND libraries ${ONIG_LIBRARY} ${UTF8PROC_LIBRARY})
list(APPEND needs SHARED_CODE)   # tests of the whole program write its files
