list(APPEND libraries capstan::nvml capstan::data_parts)
# The Python texts become part of the plugin: a file beside it might be of another version.
set(texts)
foreach(script IN ITEMS probe send)
  file(READ "${folder}/${script}.py" text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${script}.py")
  # Python looks into the working folder first, where a file of the user may be called wandb.py or signal.py.
  string(PREPEND text "import sys\nsys.path[:] = [folder for folder in sys.path if folder]\n")
  string(APPEND texts "extern const char* const ${script}_script;\nconst char* const ${script}_script = R\"PYTHON(${text})PYTHON\";\n")
endforeach()
set(generated "${CMAKE_CURRENT_BINARY_DIR}/wandb_scripts.cc")
file(CONFIGURE OUTPUT "${generated}" CONTENT "namespace wandb {\n@texts@}  // namespace wandb\n" @ONLY)
list(APPEND sources "${generated}")
