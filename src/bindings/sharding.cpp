// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "parallel/sharded_unit.h"

namespace mindspeed::bindings {

namespace py = pybind11;
using parallel::ShardedUnit;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

void bind_sharding(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<ShardedUnit>(
      module, "ShardedUnit", "Parameters that are gathered and freed together (ZeRO-3).")
      .def(
          py::init<std::vector<at::Tensor>, Group, std::optional<at::ScalarType>>(),
          py::arg("parameters"),
          py::arg("process_group"),
          py::arg("compute_dtype") = py::none())
      .def("start_gather", &ShardedUnit::start_gather, Release())
      .def("gather", &ShardedUnit::gather, Release())
      .def("release", &ShardedUnit::release, Release())
      .def_property_readonly("is_gathered", &ShardedUnit::is_gathered)
      .def(
          "start_gradient_reduction",
          &ShardedUnit::start_gradient_reduction,
          py::arg("scale"),
          Release())
      .def("finish_gradient_reduction", &ShardedUnit::finish_gradient_reduction, Release())
      .def("attach_gradients", &ShardedUnit::attach_gradients)
      .def("zero_gradients", &ShardedUnit::zero_gradients);

  module.def(
      "shard_rows",
      [](int64_t rows, int64_t rank, int64_t world_size) {
        const auto mine = parallel::shard_rows(rows, rank, world_size);
        return std::make_pair(mine.start, mine.length);
      },
      py::arg("rows"),
      py::arg("rank"),
      py::arg("world_size"),
      "(start, length) of the rows that a rank holds, by torch.chunk's rule.");
}

}  // namespace mindspeed::bindings
