# libcapstan_cuda.so: every *.cu and *_cuda.cc of the rooms. Opened at run time by ranks that use GPUs, before the
# first use of ATen; nothing else links it, so that libcapstan_engine.so needs no libtorch_cuda, cudart or nccl.
set(CUDA_SOURCES)
foreach(room IN LISTS ENGINE_ROOMS)
  file(GLOB files CONFIGURE_DEPENDS "engine/${room}/*.cu" "engine/${room}/*_cuda.cc")
  list(APPEND CUDA_SOURCES ${files})
endforeach()
capstan_abi_note(note "${CAPSTAN_GPU_ABI_TAG}")   # what the host compares with a plugin's GPU module
add_library(capstan_cuda SHARED ${CUDA_SOURCES} "${note}")
target_include_directories(capstan_cuda PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/host" "${CMAKE_CURRENT_SOURCE_DIR}/engine" "${CMAKE_CURRENT_SOURCE_DIR}/hf/include" "${CMAKE_CURRENT_SOURCE_DIR}/step_time/include" "${CMAKE_CURRENT_SOURCE_DIR}/peers/include" "${CMAKE_CURRENT_SOURCE_DIR}/data/include"
  "${CMAKE_CURRENT_SOURCE_DIR}/include")
target_include_directories(capstan_cuda SYSTEM PRIVATE
  "${CMAKE_CURRENT_SOURCE_DIR}/engine/comm/gloo_shim" "${NCCL_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(capstan_cuda PRIVATE capstan_engine_library capstan torch::cuda CUDA::cudart "${NCCL_LIBRARY}" capstan_packages)
target_compile_options(capstan_cuda PRIVATE ${CAPSTAN_CUDA_OPTIONS})
target_link_options(capstan_cuda PRIVATE "-Wl,-z,defs")
