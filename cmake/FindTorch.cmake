# Finds the libtorch inside the pip wheel of the Python in use and makes Torch::torch and Torch::python.
# torch's own TorchConfig.cmake demands a CUDA toolkit whenever the wheel was built with CUDA; this engine
# calls no CUDA API, so a machine without a toolkit (a laptop, CI) must be able to build. Works with CUDA and
# CPU-only wheels. Sets Torch_VERSION, TORCH_LIBRARY_DIR.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "import importlib.util,pathlib,re;p=pathlib.Path(importlib.util.find_spec('torch').origin).parent;print(p);print(re.search(r\"__version__ = '([^'+]+)\",(p/'version.py').read_text()).group(1))"
  OUTPUT_VARIABLE torch_location OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_status ERROR_QUIET)
if(torch_status EQUAL 0)
  string(REPLACE "\n" ";" torch_location "${torch_location}")
  list(GET torch_location 0 TORCH_ROOT)
  list(GET torch_location 1 Torch_VERSION)
  set(TORCH_LIBRARY_DIR "${TORCH_ROOT}/lib")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Torch REQUIRED_VARS TORCH_ROOT TORCH_LIBRARY_DIR VERSION_VAR Torch_VERSION
  REASON_FAILURE_MESSAGE "no torch in ${Python_EXECUTABLE}: install it there first (pip install torch)")

if(Torch_FOUND AND NOT TARGET Torch::torch)
  if(Torch_VERSION VERSION_LESS 2.11 OR Torch_VERSION VERSION_GREATER_EQUAL 2.16)
    message(WARNING "torch ${Torch_VERSION} is outside the tested range 2.11 to 2.15")
  endif()
  # at::parallel_for runs in its caller's OpenMP; without it every loop of ours would have one thread.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  add_library(Torch::torch INTERFACE IMPORTED)
  target_include_directories(Torch::torch SYSTEM INTERFACE
    "${TORCH_ROOT}/include" "${TORCH_ROOT}/include/torch/csrc/api/include")
  target_compile_definitions(Torch::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  target_link_libraries(Torch::torch INTERFACE
    "${TORCH_LIBRARY_DIR}/libtorch_cpu.so" "${TORCH_LIBRARY_DIR}/libc10.so" OpenMP::OpenMP_CXX)
  add_library(Torch::python INTERFACE IMPORTED)
  target_link_libraries(Torch::python INTERFACE Torch::torch "${TORCH_LIBRARY_DIR}/libtorch_python.so")
endif()
