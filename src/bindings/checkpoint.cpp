// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <pybind11/stl.h>

#include "bindings/bindings.h"

namespace mindspeed::bindings {
namespace {

namespace py = pybind11;
using train::CheckpointReader;
using train::CheckpointWriter;
using Shards = std::map<std::string, std::pair<std::vector<int64_t>, std::vector<int64_t>>>;

void save(
    CheckpointWriter& writer,
    int64_t step,
    const std::map<std::string, at::Tensor>& tensors,
    const Shards& shards,
    const std::string& state_json,
    bool asynchronous) {
  std::map<std::string, train::TensorPlace> places;
  for (const auto& [name, shard] : shards) places[name] = {shard.first, shard.second};
  writer.save(step, tensors, places, state_json, asynchronous);
}

}  // namespace

void bind_checkpoint(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<CheckpointWriter>(
      module, "CheckpointWriter", "Writes checkpoints that are whole or not there.")
      .def(
          py::init<std::string, int64_t, int64_t, int64_t>(),
          py::arg("root"),
          py::arg("keep_last"),
          py::arg("rank") = 0,
          py::arg("world_size") = 1)
      .def(
          "save",
          &save,
          py::arg("step"),
          py::arg("tensors"),
          py::arg("shards"),
          py::arg("state_json"),
          py::arg("asynchronous"),
          Release())
      .def("wait", &CheckpointWriter::wait, Release());

  py::class_<CheckpointReader>(module, "CheckpointReader", "Reads a checkpoint by global tensors.")
      .def(py::init<std::string, bool>(), py::arg("path"), py::arg("verify") = true, Release())
      .def_property_readonly("state_json", &CheckpointReader::state_json)
      .def("names", &CheckpointReader::names)
      .def("read", &CheckpointReader::read, py::arg("name"), Release())
      .def(
          "read_slice",
          &CheckpointReader::read_rows,
          py::arg("name"),
          py::arg("start"),
          py::arg("length"),
          Release());

  module.def(
      "find_checkpoint",
      [](const std::string& root) {
        auto [path, rejected] = train::find_checkpoint(root);
        return std::make_pair(path.empty() ? std::nullopt : std::optional(path), rejected);
      },
      py::arg("root"),
      "The newest checkpoint that verifies (or None), and why newer ones were rejected.",
      Release());
  module.def(
      "save_safetensors",
      [](const std::string& path,
         const std::map<std::string, at::Tensor>& tensors,
         const std::map<std::string, std::string>& metadata) {
        train::write_safetensors(path, tensors, metadata);
      },
      py::arg("path"),
      py::arg("tensors"),
      py::arg("metadata") = std::map<std::string, std::string>{},
      Release());
  module.def(
      "load_safetensors",
      [](const std::string& path) {
        train::SafetensorsFile file(path);
        std::map<std::string, at::Tensor> tensors;
        for (const auto& [name, entry] : file.entries()) tensors[name] = file.read(name);
        return tensors;
      },
      py::arg("path"),
      Release());
}

}  // namespace mindspeed::bindings
