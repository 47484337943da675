# cmake --install: a prefix that works wherever it is moved, shaped like the build tree.
#
#   bin/capstan, bin/capstan-new-plugin      share/capstan/{configs,templates,examples,slurm}
#   lib/libcapstan*.so, libcapstan_*.a       share/doc/capstan
#   lib/capstan/plugins/<kind>/*.so          lib/cmake/Capstan: find_package(Capstan)
#   include/capstan: the SDK
#
# Everything finds libcapstan relative to itself. LibTorch is not copied: its folder is written into the files, with
# LD_LIBRARY_PATH after it for a LibTorch that was moved.
set(CAPSTAN_INSTALL_PACKAGE lib/cmake/Capstan)
get_property(_plugins GLOBAL PROPERTY CAPSTAN_PLUGINS)
add_custom_target(installable DEPENDS capstan_program ${_plugins})   # what has to be built, which is less than all
# What configs/quickstart.toml runs, and the commands that tools/quickstart names in the end.
add_custom_target(first_run DEPENDS capstan_program plugin_model_gpt plugin_data_squad plugin_tokenizer_hf plugin_optimizer_adamw
  plugin_objective_causal_lm plugin_strategy_fsdp plugin_monitor_console plugin_command_generate plugin_command_eval
  plugin_command_report)
set_target_properties(capstan_program PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;${CAPSTAN_TORCH_RPATH}")
set_target_properties(capstan PROPERTIES INSTALL_RPATH "$ORIGIN")
get_property(_side_libraries GLOBAL PROPERTY CAPSTAN_SIDE_LIBRARIES)
set_target_properties(capstan_engine_library ${_side_libraries} PROPERTIES INSTALL_RPATH "$ORIGIN;${CAPSTAN_TORCH_RPATH}")
install(TARGETS capstan_program RUNTIME DESTINATION bin)
install(TARGETS capstan capstan_engine_library ${_side_libraries} LIBRARY DESTINATION lib)
if(TARGET capstan_cuda)
  set_target_properties(capstan_cuda PROPERTIES INSTALL_RPATH "$ORIGIN;${CAPSTAN_TORCH_RPATH}" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS capstan_cuda LIBRARY DESTINATION lib)
  add_dependencies(installable capstan_cuda)
endif()
if(TARGET capstan_testing)
  install(TARGETS capstan_testing ARCHIVE DESTINATION lib)
  add_dependencies(installable capstan_testing)
endif()
# What plugins may be linked with besides.
install(TARGETS capstan_decoder capstan_strategy_parts capstan_matrix_rules capstan_monitor_parts capstan_data_parts capstan_nvml ARCHIVE DESTINATION lib)
install(TARGETS capstan_adamw LIBRARY DESTINATION lib)
set_target_properties(capstan_adamw PROPERTIES INSTALL_RPATH "$ORIGIN;${CAPSTAN_TORCH_RPATH}")
add_dependencies(installable capstan_decoder capstan_strategy_parts capstan_matrix_rules capstan_monitor_parts capstan_data_parts capstan_nvml capstan_adamw)
if(TARGET capstan_adamw_cuda)
  set_target_properties(capstan_adamw_cuda PROPERTIES INSTALL_RPATH "$ORIGIN;${CAPSTAN_TORCH_RPATH}" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS capstan_adamw_cuda LIBRARY DESTINATION lib)
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/core/include/" "${PROJECT_SOURCE_DIR}/models/libraries/decoder/include/"
  "${PROJECT_SOURCE_DIR}/plugins/libraries/adamw/include/" "${PROJECT_SOURCE_DIR}/plugins/libraries/strategy_parts/include/"
  "${PROJECT_SOURCE_DIR}/plugins/libraries/matrix_rules/include/"
  "${PROJECT_SOURCE_DIR}/plugins/libraries/nvml/include/" "${PROJECT_SOURCE_DIR}/plugins/libraries/monitor_parts/include/"
  "${PROJECT_SOURCE_DIR}/plugins/libraries/data_parts/include/"
  DESTINATION include FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
configure_file("${CMAKE_CURRENT_LIST_DIR}/CapstanConfig.cmake.in" "${CMAKE_BINARY_DIR}/package/CapstanConfig.cmake" @ONLY)
configure_file("${CMAKE_CURRENT_LIST_DIR}/CapstanConfigVersion.cmake.in" "${CMAKE_BINARY_DIR}/package/CapstanConfigVersion.cmake" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/package/CapstanConfig.cmake" "${CMAKE_BINARY_DIR}/package/CapstanConfigVersion.cmake"
  DESTINATION ${CAPSTAN_INSTALL_PACKAGE})
foreach(file IN ITEMS CapstanCuda.cmake CapstanPlugin.cmake CapstanTest.cmake CapstanTorch.cmake abi_note.S.in plugin.exports
    plugin_pch.h)
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/${file}" DESTINATION ${CAPSTAN_INSTALL_PACKAGE})
endforeach()

install(PROGRAMS "${PROJECT_SOURCE_DIR}/tools/new-plugin" DESTINATION bin RENAME capstan-new-plugin)
# The questions of configs/quickstart.toml are not in the repository, and may have been deleted since the build was configured.
install(CODE "execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/tools/make-quickstart-data\" COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/templates" "${PROJECT_SOURCE_DIR}/configs" "${PROJECT_SOURCE_DIR}/docs/examples"
  DESTINATION share/capstan)
# For a copy in a folder of one's own, where site.sh is filled in and logs are written.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/slurm" DESTINATION share/capstan USE_SOURCE_PERMISSIONS)
# Capstan's own plugins that docs/plugins.md shows: their very sources.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/plugins/strategies/fsdp" "${PROJECT_SOURCE_DIR}/plugins/strategies/zero"
  DESTINATION share/capstan/examples/strategies)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/plugins/optimizers/lion" DESTINATION share/capstan/examples/optimizers)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/models/llama" "${PROJECT_SOURCE_DIR}/models/qwen3" DESTINATION share/capstan/examples/models)
# Last, for a document may have links to all of these.
install(CODE "execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/tools/install-docs\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)")
