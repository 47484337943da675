# What GPU modules are compiled with: nvcc of LibTorch's CUDA major, the architectures, NCCL.
# Included only with CAPSTAN_CUDA, after CapstanTorch, whose torch::cuda is LibTorch itself.
# Sets CAPSTAN_GPU_ABI_FIELDS, which stand in the ABI note of a GPU module after those of every plugin.

# nvcc: -DCMAKE_CUDA_COMPILER, then CUDA_HOME, then the newest toolkit of the right major, then the PATH.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  file(GLOB _toolkits "/usr/local/cuda-${CAPSTAN_TORCH_CUDA_MAJOR}*/bin")
  list(SORT _toolkits COMPARE NATURAL ORDER DESCENDING)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS "$ENV{CUDA_HOME}/bin" ${_toolkits} PATHS /usr/local/cuda/bin
    DOC "the CUDA compiler")
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "no nvcc found, which the GPU module needs.\n"
      "Install a CUDA ${CAPSTAN_TORCH_CUDA_MAJOR} toolkit (tools/setup does), pass -DCMAKE_CUDA_COMPILER=FILE, "
      "or build without GPUs: cmake --preset cpu.")
  endif()
endif()

# Looked at before CMake tries the compiler, whose own messages do not say what is wrong.
set(_nvcc "${CMAKE_CUDA_COMPILER}")
if(NOT _nvcc)
  set(_nvcc "$ENV{CUDACXX}")
endif()
execute_process(COMMAND "${_nvcc}" --version OUTPUT_VARIABLE _nvcc_version ERROR_VARIABLE _nvcc_version RESULT_VARIABLE _nvcc_result)
if(NOT _nvcc_result EQUAL 0 OR NOT _nvcc_version MATCHES "release ([0-9]+)\\.([0-9]+)")
  message(FATAL_ERROR "${_nvcc} --version does not work (${_nvcc_result}): ${_nvcc_version}\n"
    "Pass -DCMAKE_CUDA_COMPILER=FILE with nvcc of a CUDA ${CAPSTAN_TORCH_CUDA_MAJOR} toolkit.")
endif()
set(_nvcc_major "${CMAKE_MATCH_1}")
if(NOT _nvcc_major EQUAL CAPSTAN_TORCH_CUDA_MAJOR)
  message(FATAL_ERROR "${_nvcc} is CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, but LibTorch in ${CAPSTAN_TORCH_DIR} "
    "was built for CUDA ${CAPSTAN_TORCH_CUDA_MAJOR}: one program cannot use both.\n"
    "Pass -DCMAKE_CUDA_COMPILER=FILE with nvcc of a CUDA ${CAPSTAN_TORCH_CUDA_MAJOR} toolkit, or give a LibTorch "
    "built for CUDA ${CMAKE_MATCH_1} with -DTorch_ROOT=FOLDER.")
endif()

# Machine code for each; the last one's PTX too, which newer GPUs compile when they load it.
if(_nvcc_major LESS 13)
  set(_archs "70-real;75-real;80-real;90")   # Volta is CUDA 12's last
else()
  set(_archs "75-real;80-real;90")
endif()
set(CAPSTAN_CUDA_ARCHS "${_archs}" CACHE STRING "GPU architectures, as CMAKE_CUDA_ARCHITECTURES takes them")
set(CMAKE_CUDA_ARCHITECTURES "${CAPSTAN_CUDA_ARCHS}")
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)   # LibTorch's own: a second, static one would have its own state
enable_language(CUDA)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -lineinfo")
set(CAPSTAN_CUDA_OPTIONS "$<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings;-Xcompiler=-Wall>")
set(CMAKE_CUDA_STANDARD 20)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)   # nvcc has it since 12.0, but CMake 3.25 does not know that
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit ${_nvcc_major} REQUIRED)

# NCCL: -DNCCL_ROOT, then the wheel next to LibTorch, what tools/setup fetched, the toolkit, the system.
file(GLOB _nccl "${CAPSTAN_TORCH_DIR}/../nvidia/nccl" "${CAPSTAN_NVIDIA}/nccl")
list(PREPEND _nccl "${NCCL_ROOT}" "$ENV{NCCL_ROOT}")
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${_nccl} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${_nccl} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib)
if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
  message(FATAL_ERROR "NCCL is missing (nccl.h: ${NCCL_INCLUDE_DIR}, libnccl: ${NCCL_LIBRARY}).\n"
    "Install the wheel nvidia-nccl-cu${_nvcc_major} next to LibTorch (tools/setup does), or pass -DNCCL_ROOT=FOLDER.")
endif()

# capstan_use_cudnn(TARGET): cuDNN and its frontend's headers, from the wheel next to LibTorch, what tools/setup fetched,
# the toolkit, the system; or -DCUDNN_ROOT, -DCUDNN_FRONTEND_ROOT.
function(capstan_use_cudnn target)
  file(GLOB fetched "${CAPSTAN_TORCH_DIR}/../nvidia/cudnn" "${CAPSTAN_NVIDIA}/cudnn")
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS "${CUDNN_ROOT}" ${fetched} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY NAMES libcudnn.so.9 cudnn HINTS "${CUDNN_ROOT}" ${fetched} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib)
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS "${CUDNN_FRONTEND_ROOT}" "${CAPSTAN_NVIDIA}/cudnn_frontend" PATH_SUFFIXES include)
  if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY OR NOT CUDNN_FRONTEND_INCLUDE_DIR)
    message(FATAL_ERROR "cuDNN is missing (cudnn.h: ${CUDNN_INCLUDE_DIR}, libcudnn: ${CUDNN_LIBRARY}, cudnn_frontend.h: "
      "${CUDNN_FRONTEND_INCLUDE_DIR}).\nRun tools/setup --cuda, or pass -DCUDNN_ROOT=FOLDER and -DCUDNN_FRONTEND_ROOT=FOLDER.")
  endif()
  target_include_directories(${target} SYSTEM PRIVATE "${CUDNN_FRONTEND_INCLUDE_DIR}" "${CUDNN_INCLUDE_DIR}")
  target_compile_definitions(${target} PRIVATE CUDNN_FRONTEND_SKIP_JSON_LIB)
  target_link_libraries(${target} PRIVATE "${CUDNN_LIBRARY}" CUDA::cudart CUDA::cuda_driver)
endfunction()

message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} (${CMAKE_CUDA_COMPILER}), architectures ${CAPSTAN_CUDA_ARCHS}, NCCL ${NCCL_LIBRARY}")
foreach(_part IN ITEMS MAJOR MINOR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" _line REGEX "^#define NCCL_${_part} ")
  string(REGEX MATCH "[0-9]+" _nccl_${_part} "${_line}")
endforeach()
set(CAPSTAN_GPU_ABI_FIELDS "cuda=${_nvcc_major} nccl=${_nccl_MAJOR}.${_nccl_MINOR}")
