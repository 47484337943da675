# The workers' Python text becomes part of the library: a file beside it might be of another version.
foreach(script IN ITEMS decode splits)
  file(READ "${folder}/${script}.py" text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${script}.py")
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/tables_${script}.cc" CONTENT
    "namespace tables {\nextern const char* const ${script}_script;\nconst char* const ${script}_script = R\"PYTHON(@text@)PYTHON\";\n}  // namespace tables\n" @ONLY)
  target_sources(plugin_tables PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/tables_${script}.cc")
endforeach()
list(APPEND libraries plugin_records capstan::data_parts)
