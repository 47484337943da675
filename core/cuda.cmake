# The kernels, a library of their own: they see the SDK's headers, and neither the engine nor LibTorch.
file(GLOB kernels CONFIGURE_DEPENDS "kernels/*.cu")
add_library(capstan_kernels STATIC ${kernels})
set_target_properties(capstan_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
target_include_directories(capstan_kernels PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/kernels/include" "${CMAKE_CURRENT_SOURCE_DIR}/include")
target_compile_options(capstan_kernels PRIVATE ${CAPSTAN_CUDA_OPTIONS})

# libcapstan_cuda.so: the kernels and every *_cuda.cc of the rooms. Opened at run time by ranks that use GPUs, before the
# first use of ATen; nothing else links it, so that libcapstan_engine.so needs no libtorch_cuda, cudart or nccl.
set(CUDA_SOURCES)
foreach(room IN LISTS ENGINE_ROOMS)
  file(GLOB files CONFIGURE_DEPENDS "engine/${room}/*_cuda.cc")
  list(APPEND CUDA_SOURCES ${files})
endforeach()
capstan_abi_note(note "${CAPSTAN_GPU_ABI_TAG}")   # what the host compares with a plugin's GPU module
add_library(capstan_cuda SHARED ${CUDA_SOURCES} "${note}")
target_include_directories(capstan_cuda PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/host" "${CMAKE_CURRENT_SOURCE_DIR}/engine" "${CMAKE_CURRENT_SOURCE_DIR}/hf/include" "${CMAKE_CURRENT_SOURCE_DIR}/step_time/include" "${CMAKE_CURRENT_SOURCE_DIR}/peers/include" "${CMAKE_CURRENT_SOURCE_DIR}/data/include" "${CMAKE_CURRENT_SOURCE_DIR}/checkpoint_files/include"
  "${CMAKE_CURRENT_SOURCE_DIR}/include")
target_include_directories(capstan_cuda SYSTEM PRIVATE
  "${CMAKE_CURRENT_SOURCE_DIR}/engine/comm/gloo_shim" "${NCCL_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(capstan_cuda PRIVATE capstan_kernels capstan_engine_library capstan torch::cuda CUDA::cudart "${NCCL_LIBRARY}" capstan_packages)
target_compile_options(capstan_cuda PRIVATE ${CAPSTAN_CUDA_OPTIONS})
target_link_options(capstan_cuda PRIVATE "-Wl,-z,defs")
