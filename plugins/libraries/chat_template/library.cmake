list(APPEND libraries capstan::data_parts)
# The worker's Python text becomes part of the library: a file beside it might be of another version. It is one text of
# several files, in an order in which each uses those before it.
set(text)
foreach(script IN ITEMS model_folder template conversation render)
  file(READ "${folder}/${script}.py" part)
  string(APPEND text "${part}\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${script}.py")
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/chat_template_script.cc" CONTENT
  "namespace chat_template {\nextern const char* const script;\nconst char* const script = R\"PYTHON(@text@)PYTHON\";\n}  // namespace chat_template\n" @ONLY)
target_sources(plugin_chat_template PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/chat_template_script.cc")
