list(APPEND needs SHARED_CODE)   # its tests are linked with it
list(APPEND libraries plugin_imports capstan::data_parts)
# The Python text becomes part of the plugin: a file beside it might be of another version.
file(READ "${folder}/read.py" text)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/read.py")
set(generated "${CMAKE_CURRENT_BINARY_DIR}/import_axolotl_script.cc")
file(CONFIGURE OUTPUT "${generated}" CONTENT
  "namespace import_axolotl {\nextern const char* const read_script;\nconst char* const read_script = R\"PYTHON(@text@)PYTHON\";\n}  // namespace import_axolotl\n" @ONLY)
list(APPEND sources "${generated}")
