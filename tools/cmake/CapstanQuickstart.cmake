# The questions of configs/quickstart.toml, which are not in the repository: made when the build is configured, again when
# what makes them has changed, and so before any test, installation or run that reads them.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/make-quickstart-data")
execute_process(COMMAND "${PROJECT_SOURCE_DIR}/tools/make-quickstart-data" RESULT_VARIABLE _failed)
if(_failed)
  message(WARNING "tools/make-quickstart-data failed (${_failed}): configs/quickstart.toml has no questions until it ran")
endif()
