# mindspeed_room(<name> [SOURCES ...] [DEPENDS <room>...] [TORCH_FREE])
# One room of the engine: an object library mindspeed_<name> that goes into libmindspeed.
# Sources named cpu_kernel*.cpp are torch-free hot loops (mindspeed_kernel_sources).
function(mindspeed_room name)
  cmake_parse_arguments(ROOM "TORCH_FREE" "" "SOURCES;DEPENDS" ${ARGN})
  set(target mindspeed_${name})
  add_library(${target} OBJECT ${ROOM_SOURCES})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  mindspeed_warnings(${target})
  target_link_libraries(${target} PRIVATE hwy::hwy)
  if(NOT ROOM_TORCH_FREE)
    target_link_libraries(${target} PUBLIC Torch::torch)
    mindspeed_torch_sources(${target})
    mindspeed_compile_folders_together(${target} "${ROOM_SOURCES}")
  endif()
  foreach(room IN LISTS ROOM_DEPENDS)
    target_link_libraries(${target} PUBLIC mindspeed_${room})
  endforeach()
endfunction()

# How sources that include torch's headers are compiled. They only call operators: -O1 runs them as fast as -O2 and
# takes two thirds of the time. A precompiled header asks for equal definitions, hence the libraries.
function(mindspeed_torch_sources target)
  target_compile_options(${target} PRIVATE -O1)
  target_link_libraries(${target} PRIVATE hwy::hwy nlohmann_json::nlohmann_json)
  target_precompile_headers(${target} REUSE_FROM mindspeed_torch_headers)
endfunction()

# The torch-using sources of one subfolder (an operator, the blocks) are one compilation: torch's headers cost 7 s a
# compilation even when precompiled. Kernels stay apart, with the options of hot loops.
function(mindspeed_compile_folders_together target sources)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    if(source MATCHES "cpu_kernel[^/]*\\.cpp$")
      mindspeed_kernel_sources(${source})
    elseif(folder)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}")
    endif()
  endforeach()
endfunction()

# How hot loops are compiled: without the precompiled torch header. They say themselves where a multiplication and an
# addition are to round as one (no contraction). They are vectorised by hand; GCC 12's own vectoriser reads past the end
# of a matrix whose columns are taken in groups (tests/cpp/simd/small_gemm_test.cpp).
function(mindspeed_kernel_sources)
  set_source_files_properties(${ARGN} PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "-O3;-fno-math-errno;-ffp-contract=off;-fno-tree-vectorize")
endfunction()

# The warnings every target of ours is held to; torch's headers come as SYSTEM and are exempt.
function(mindspeed_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
endfunction()
