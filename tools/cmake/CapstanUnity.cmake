# capstan_unity(<result> [TOGETHER <folder>] <file>...): files that compile several of the given ones each, so that what
# they all include is read once: those of one folder, or with TOGETHER all that lie below it. A file stands by itself when
# it has compile options of its own, and with CAPSTAN_UNITY=0 every file does.
#
# Not CMake's UNITY_BUILD: that writes absolute paths, and ccache could then share no object between worktrees.
set(CAPSTAN_UNITY 40 CACHE STRING "how many C++ files are compiled at once; 0: each by itself, as editors like it")

# Writes a file that includes the others, and returns its path.
function(_capstan_unity_file result name)
  set(file "${CMAKE_CURRENT_BINARY_DIR}/unity/${name}.cc")
  get_property(made GLOBAL PROPERTY CAPSTAN_UNITY_FILES)
  if(file IN_LIST made)   # a plugin's entry and its other files are two targets of one folder
    set(file "${CMAKE_CURRENT_BINARY_DIR}/unity/${name}-code.cc")
  endif()
  set_property(GLOBAL APPEND PROPERTY CAPSTAN_UNITY_FILES "${file}")
  set(text "// Made by CapstanUnity.cmake.\n")
  get_filename_component(folder "${file}" DIRECTORY)
  foreach(source IN LISTS ARGN)
    file(RELATIVE_PATH relative "${folder}" "${source}")
    string(APPEND text "#include \"${relative}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)   # does not touch a file that says this already
  # A class of a .cc may well have members of its unnamed namespace: no other file sees either.
  set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS -Wno-subobject-linkage)
  set(${result} "${file}" PARENT_SCOPE)
endfunction()

function(capstan_unity result)
  cmake_parse_arguments(UNITY "" "TOGETHER" "" ${ARGN})
  set(alone)
  set(folders)
  foreach(source IN LISTS UNITY_UNPARSED_ARGUMENTS)
    get_filename_component(source "${source}" ABSOLUTE)
    get_filename_component(extension "${source}" LAST_EXT)
    get_source_file_property(own_options "${source}" COMPILE_OPTIONS)
    get_source_file_property(own_definitions "${source}" COMPILE_DEFINITIONS)
    if(CAPSTAN_UNITY LESS 2 OR own_options OR own_definitions OR NOT extension STREQUAL ".cc")
      list(APPEND alone "${source}")
    else()
      get_filename_component(folder "${source}" DIRECTORY)
      if(UNITY_TOGETHER)
        set(folder "${UNITY_TOGETHER}")
      endif()
      list(APPEND folders "${folder}")
      list(APPEND "in_${folder}" "${source}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    file(RELATIVE_PATH name "${CMAKE_CURRENT_SOURCE_DIR}" "${folder}")
    list(LENGTH "in_${folder}" count)
    math(EXPR groups "(${count} + ${CAPSTAN_UNITY} - 1) / ${CAPSTAN_UNITY}")
    math(EXPR last "${groups} - 1")
    foreach(number RANGE ${last})   # as many files in each, so that no group keeps one core busy in the end
      math(EXPR begin "${number} * ${count} / ${groups}")
      math(EXPR size "(${number} + 1) * ${count} / ${groups} - ${begin}")
      list(SUBLIST "in_${folder}" ${begin} ${size} files)
      list(LENGTH files together)
      if(together GREATER 1)   # targets of one file each may share a folder
        _capstan_unity_file(file "${name}/${number}" ${files})
        set(files "${file}")
      endif()
      list(APPEND alone ${files})
    endforeach()
  endforeach()
  set(${result} ${alone} PARENT_SCOPE)
endfunction()
