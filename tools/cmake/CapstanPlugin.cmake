# capstan_add_plugin(<name> KIND model|strategy|data|monitor SOURCES <file>...
#                    [OUTPUT_DIRECTORY <folder>] [ABI_TAG <text>])
#
# Makes the target plugin_<kind>_<name>: one MODULE <name>.so that exports one
# symbol and carries the ABI note which the host reads before it opens the file.
# In Capstan's own tree the file lands in lib/capstan/plugins/<kind>/, where the
# host looks for it; elsewhere in <build>/plugins/<kind>/, for CAPSTAN_PLUGIN_PATH.
# ABI_TAG writes another tag into the note: only tests of the host need it.
#
# Needs before it is included: the target capstan::sdk and CAPSTAN_TORCH_VERSION.
include_guard(GLOBAL)
enable_language(ASM)

set(CAPSTAN_PLUGIN_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(CAPSTAN_PLUGIN_EXPORTS "${CMAKE_CURRENT_LIST_DIR}/plugin.exports")

# The ABI tag: what must match exactly between host and plugin, since C++ objects
# pass between them. GPU files add their CUDA and NCCL versions.
set(CAPSTAN_SDK_VERSION 1)
string(REGEX MATCH "^[0-9]+" _cxx_major "${CMAKE_CXX_COMPILER_VERSION}")
string(TOLOWER "${CMAKE_CXX_COMPILER_ID}" _cxx_id)
string(REPLACE "gnu" "gcc" _cxx_id "${_cxx_id}")
string(JOIN " " CAPSTAN_ABI_TAG "sdk=${CAPSTAN_SDK_VERSION}" "arch=${CMAKE_SYSTEM_PROCESSOR}"
  "cxx=${_cxx_id}${_cxx_major}" "std=c++20" "cxx11abi=1" "torch=${CAPSTAN_TORCH_VERSION}")

# Writes the note's source for a tag and returns its path: the same file for the same tag.
function(capstan_abi_note result CAPSTAN_NOTE_TAG)
  string(MD5 key "${CAPSTAN_NOTE_TAG}")
  set(file "${CMAKE_BINARY_DIR}/abi_note_${key}.S")
  configure_file("${CAPSTAN_PLUGIN_CMAKE_DIR}/abi_note.S.in" "${file}" @ONLY)
  set(${result} "${file}" PARENT_SCOPE)
endfunction()

function(capstan_add_plugin name)
  cmake_parse_arguments(PLUGIN "" "KIND;OUTPUT_DIRECTORY;ABI_TAG" "SOURCES" ${ARGN})
  if(NOT PLUGIN_KIND MATCHES "^(model|strategy|data|monitor)$")
    message(FATAL_ERROR "capstan_add_plugin(${name}): KIND must be model, strategy, data or monitor, not '${PLUGIN_KIND}'")
  endif()
  if(NOT name MATCHES "^[A-Za-z0-9_-]+$")
    message(FATAL_ERROR "capstan_add_plugin(${name}): a name has letters, digits, '_' and '-' only")
  endif()
  if(NOT PLUGIN_SOURCES)
    message(FATAL_ERROR "capstan_add_plugin(${name}): SOURCES is empty")
  endif()
  if(PLUGIN_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "capstan_add_plugin(${name}): unknown arguments ${PLUGIN_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT PLUGIN_OUTPUT_DIRECTORY)
    if(CMAKE_LIBRARY_OUTPUT_DIRECTORY)
      set(PLUGIN_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/capstan/plugins/${PLUGIN_KIND}")
    else()
      set(PLUGIN_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/plugins/${PLUGIN_KIND}")
    endif()
  endif()
  if(NOT PLUGIN_ABI_TAG)
    set(PLUGIN_ABI_TAG "${CAPSTAN_ABI_TAG}")
  endif()
  capstan_abi_note(note "${PLUGIN_ABI_TAG}")
  set(target plugin_${PLUGIN_KIND}_${name})
  add_library(${target} MODULE ${PLUGIN_SOURCES} "${note}")
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX ".so" OUTPUT_NAME "${name}"
    LIBRARY_OUTPUT_DIRECTORY "${PLUGIN_OUTPUT_DIRECTORY}" LINK_DEPENDS "${CAPSTAN_PLUGIN_EXPORTS}"
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${target} PRIVATE capstan::sdk)
  target_link_options(${target} PRIVATE "-Wl,--version-script=${CAPSTAN_PLUGIN_EXPORTS}" "-Wl,-z,defs")
  # In the tree, plugins that speak tensors share core's precompiled header.
  if(TARGET capstan_pch AND NOT PLUGIN_KIND MATCHES "^(data|monitor)$")
    target_precompile_headers(${target} REUSE_FROM capstan_pch)
  endif()
endfunction()
