find_path(PROTOZERO_INCLUDE protozero/pbf_writer.hpp REQUIRED)   # headers only
if(NOT TARGET protozero)
  add_library(protozero INTERFACE IMPORTED GLOBAL)   # the tests are linked with it, too
  target_include_directories(protozero INTERFACE ${PROTOZERO_INCLUDE})
endif()
list(APPEND libraries protozero)
