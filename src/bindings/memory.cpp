// SPDX-License-Identifier: Apache-2.0
#include "memory/buffer_pool.h"
#include "memory/swap_file.h"

#include "bindings/bindings.h"

namespace mindspeed::bindings {
namespace {

namespace py = pybind11;
using memory::BufferPool;

py::dict pool_statistics() {
  const memory::PoolStatistics statistics = BufferPool::statistics();
  py::dict result;
  result["enabled"] = statistics.enabled;
  result["in_use_bytes"] = statistics.in_use_bytes;
  result["reserved_bytes"] = statistics.reserved_bytes;
  result["peak_in_use_bytes"] = statistics.peak_in_use_bytes;
  result["limit_bytes"] = statistics.limit_bytes;
  result["reused"] = statistics.reused;
  result["mapped"] = statistics.mapped;
  return result;
}

}  // namespace

void bind_memory(py::module_& module) {
  py::register_exception<memory::SwapError>(module, "SwapError", PyExc_OSError);
  module.def("pool_enable", &BufferPool::enable, "Make the buffer pool torch's CPU allocator.");
  module.def("pool_disable", &BufferPool::disable, "Put the earlier CPU allocator back.");
  module.def("pool_statistics", &pool_statistics, "Counters of the pool, in bytes.");
  module.def(
      "pool_trim", &BufferPool::trim, "Give unused regions back to the kernel; returns bytes.");
  module.def("pool_reset_peak", &BufferPool::reset_peak, "Let peak_in_use_bytes start anew.");
  module.def(
      "pool_set_limit",
      &BufferPool::set_limit,
      py::arg("bytes"),
      "Most bytes in use; 0: no limit.");
}

}  // namespace mindspeed::bindings
