# capstan_add_plugin(<name> KIND model|strategy|data|monitor SOURCES <file>...)
#
# One MODULE that exports one symbol and carries the ABI note. The file lands in
# lib/capstan/plugins/<kind>/<name>.so, where the host looks for it.
function(capstan_add_plugin name)
  cmake_parse_arguments(PLUGIN "" "KIND;OUTPUT_DIRECTORY" "SOURCES" ${ARGN})
  if(NOT PLUGIN_KIND MATCHES "^(model|strategy|data|monitor)$")
    message(FATAL_ERROR "capstan_add_plugin(${name}): KIND must be model, strategy, data or monitor, not '${PLUGIN_KIND}'")
  endif()
  if(NOT PLUGIN_OUTPUT_DIRECTORY)
    set(PLUGIN_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/capstan/plugins/${PLUGIN_KIND}")
  endif()
  set(target plugin_${PLUGIN_KIND}_${name})
  add_library(${target} MODULE ${PLUGIN_SOURCES} "${CAPSTAN_ABI_NOTE_SOURCE}")
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME "${name}"
    LIBRARY_OUTPUT_DIRECTORY "${PLUGIN_OUTPUT_DIRECTORY}")
  target_link_libraries(${target} PRIVATE capstan::sdk)
  target_link_options(${target} PRIVATE "-Wl,--version-script=${CAPSTAN_PLUGIN_EXPORTS}" "-Wl,-z,defs")
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${CAPSTAN_PLUGIN_EXPORTS}")
  if(TARGET capstan_pch AND NOT PLUGIN_KIND MATCHES "^(data|monitor)$")
    target_precompile_headers(${target} REUSE_FROM capstan_pch)
  endif()
endfunction()
set(CAPSTAN_PLUGIN_EXPORTS "${CMAKE_CURRENT_LIST_DIR}/plugin.exports")
set(CAPSTAN_ABI_NOTE_SOURCE "${CMAKE_BINARY_DIR}/abi_note.S")

# The ABI tag: what must match exactly between host and plugin. GPU files add their CUDA and NCCL versions.
set(CAPSTAN_SDK_VERSION 1)
string(REGEX MATCH "^[0-9]+" _cxx_major "${CMAKE_CXX_COMPILER_VERSION}")
string(TOLOWER "${CMAKE_CXX_COMPILER_ID}" _cxx_id)
string(REPLACE "gnu" "gcc" _cxx_id "${_cxx_id}")
set(CAPSTAN_ABI_TAG "sdk=${CAPSTAN_SDK_VERSION} cxx=${_cxx_id}${_cxx_major} std=c++${CMAKE_CXX_STANDARD} cxx11abi=1 torch=${CAPSTAN_TORCH_VERSION}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/abi_note.S.in" "${CAPSTAN_ABI_NOTE_SOURCE}" @ONLY)
