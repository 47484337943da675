# Third-party packages of the host runtime (Debian's packages; tools/setup installs them).
# None of them appears after a header of core/include.
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus QUIET)
if(NOT TARGET tomlplusplus::tomlplusplus)
  find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
  add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
  target_include_directories(tomlplusplus::tomlplusplus INTERFACE ${TOMLPLUSPLUS_INCLUDE})
endif()
find_package(Boost 1.74 REQUIRED COMPONENTS filesystem)
find_package(nlohmann_json REQUIRED)                # core/json alone is compiled with it
find_package(CLI11 REQUIRED)                        # core/arguments alone is compiled with it
find_library(ELF_LIBRARY elf REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)          # headers only
find_package(OpenSSL REQUIRED COMPONENTS Crypto)   # ranks prove with it that they are of one run
add_library(capstan_packages INTERFACE)
target_link_libraries(capstan_packages INTERFACE Threads::Threads spdlog::spdlog tomlplusplus::tomlplusplus
  Boost::boost Boost::filesystem ${ELF_LIBRARY} ${UTF8PROC_LIBRARY}
  OpenSSL::Crypto ${CMAKE_DL_LIBS})
target_include_directories(capstan_packages SYSTEM INTERFACE ${XXHASH_INCLUDE})
