// SPDX-License-Identifier: Apache-2.0
// CausalLM, KeyValueCache and StepEngine for Python. Tensors cross as the very same objects.
#include "bindings/bindings.h"

#include <pybind11/stl.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "models/causal_lm.h"
#include "train/schedule.h"
#include "train/step_engine.h"

namespace mindspeed::bindings {
namespace {

namespace py = pybind11;
using models::CausalLM;
using models::KeyValueCache;
using models::MicroBatch;
using train::StepEngine;
using train::StepStats;

// (input_ids, labels or None, positions or None, cu_seqlens or None), as Python hands a micro batch
// over.
using MicroBatchTuple = std::tuple<
    at::Tensor,
    std::optional<at::Tensor>,
    std::optional<at::Tensor>,
    std::optional<at::Tensor>>;

MicroBatch to_micro_batch(const MicroBatchTuple& tuple) {
  const auto& [input_ids, labels, positions, cu_seqlens] = tuple;
  return {input_ids, labels.value_or(at::Tensor()), positions, cu_seqlens};
}

std::vector<MicroBatch> to_micro_batches(const std::vector<MicroBatchTuple>& tuples) {
  std::vector<MicroBatch> batches;
  for (const auto& tuple : tuples) batches.push_back(to_micro_batch(tuple));
  return batches;
}

std::shared_ptr<CausalLM> make_causal_lm(
    const std::string& spec_json,
    const std::string& device,
    uint64_t seed,
    const std::map<std::string, int64_t>& layout) {
  parallel::Mesh mesh;
  auto get = [&](const std::string& key, int64_t otherwise) {
    auto found = layout.find(key);
    return found == layout.end() ? otherwise : found->second;
  };
  for (const char* axis : {"tensor", "pipeline"}) {
    const std::string name = axis;
    mesh.set(name, get(name + "_size", 1), get(name + "_rank", 0));
  }
  return std::make_shared<CausalLM>(
      models::ModelSpec::from_json(spec_json), at::Device(device), mesh, seed);
}

py::list parameter_owners(const CausalLM& model) {
  py::list owners;
  for (const auto& item : model.named_parameters()) {
    const auto& owner = model.owners().at(item.key());
    py::dict entry;
    entry["name"] = item.key();
    entry["global_shape"] = owner.global_shape;
    entry["split_axis"] = owner.split_axis;
    entry["split_dim"] = owner.split_dim;
    owners.append(entry);
  }
  return owners;
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters(const CausalLM& model) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& item : model.named_parameters())
    parameters.emplace_back(item.key(), item.value());
  return parameters;
}

void bind_causal_lm(py::module_& module) {
  py::class_<KeyValueCache>(
      module, "KeyValueCache", "Keys and values of earlier tokens, for generation.")
      .def(py::init([](const CausalLM& model) {
        KeyValueCache cache;
        cache.layers.resize(model.decoder().layers().size());
        return cache;
      }))
      .def_property_readonly("length", &KeyValueCache::length);

  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<CausalLM, std::shared_ptr<CausalLM>>(
      module, "CausalLM", "A decoder-only language model (C++).")
      .def(
          py::init(&make_causal_lm),
          py::arg("spec_json"),
          py::arg("device") = "cpu",
          py::arg("seed") = 1234,
          py::arg("layout") = std::map<std::string, int64_t>{})
      .def("named_parameters", &named_parameters)
      .def("parameter_owners", &parameter_owners)
      .def_property_readonly(
          "spec_json", [](const CausalLM& model) { return model.spec().to_json(); })
      .def(
          "set_compute_dtype",
          [](CausalLM& model, at::ScalarType dtype) { model.set_compute_dtype(dtype); })
      .def(
          "hidden",
          [](CausalLM& model,
             const at::Tensor& input_ids,
             std::optional<at::Tensor> positions,
             std::optional<at::Tensor> cu_seqlens,
             KeyValueCache* cache) {
            return model.hidden({input_ids, at::Tensor(), positions, cu_seqlens}, cache);
          },
          py::arg("input_ids"),
          py::arg("positions") = py::none(),
          py::arg("cu_seqlens") = py::none(),
          py::arg("cache") = nullptr,
          Release())
      .def("logits_of_hidden", &CausalLM::logits_of_hidden, py::arg("hidden"), Release())
      .def(
          "loss_of_hidden",
          [](CausalLM& model, const at::Tensor& hidden, const at::Tensor& labels, double z_loss) {
            auto output = model.loss_of_hidden(hidden, labels, z_loss);
            return std::make_pair(output.loss_sum, output.num_valid);
          },
          py::arg("hidden"),
          py::arg("labels"),
          py::arg("z_loss") = 0.0,
          Release());
}

// {"by_layer": [names], "peak_bytes", "fits", "layer": {name: {"kept_bytes", "seconds"}}}
py::dict recompute_plan(const train::RecomputePlan& plan) {
  py::list by_layer;
  for (models::Recomputation kind : plan.by_layer)
    by_layer.append(models::recomputation_name(kind));
  py::dict layer;
  for (size_t kind = 0; kind < plan.costs.size(); ++kind) {
    py::dict cost;
    cost["kept_bytes"] = plan.costs[kind].kept_bytes;
    cost["seconds"] = plan.costs[kind].seconds;
    layer[models::recomputation_name(static_cast<models::Recomputation>(kind))] = cost;
  }
  py::dict result;
  result["by_layer"] = by_layer;
  result["peak_bytes"] = plan.peak_bytes;
  result["fits"] = plan.fits;
  result["layer"] = layer;
  return result;
}

double learning_rate(
    const std::string& kind,
    int64_t step,
    double peak,
    double minimum,
    int64_t warmup_steps,
    int64_t total_steps,
    double decay_fraction) {
  return train::learning_rate(
      {kind, peak, minimum, warmup_steps, total_steps, decay_fraction}, step);
}

void bind_step_engine(py::module_& module) {
  py::class_<StepStats>(
      module, "StepStats", "What a training step did; times in seconds on this rank.")
      .def_readonly("loss", &StepStats::loss)
      .def_readonly("valid_tokens", &StepStats::valid_tokens)
      .def_readonly("grad_norm", &StepStats::grad_norm)
      .def_readonly("finite", &StepStats::finite)
      .def_readonly("loss_scale", &StepStats::loss_scale)
      .def_readonly("forward_s", &StepStats::forward_s)
      .def_readonly("backward_s", &StepStats::backward_s)
      .def_readonly("reduce_wait_s", &StepStats::reduce_wait_s)
      .def_readonly("clip_s", &StepStats::clip_s);

  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<StepEngine>(module, "StepEngine", "Runs training steps of a CausalLM.")
      .def(
          py::init([](std::shared_ptr<CausalLM> model,
                      const std::string& settings_json,
                      std::optional<c10::intrusive_ptr<c10d::ProcessGroup>> group) {
            return std::make_unique<StepEngine>(
                std::move(model),
                train::StepSettings::from_json(settings_json),
                group.value_or(nullptr));
          }),
          py::arg("model"),
          py::arg("settings_json"),
          py::arg("process_group") = py::none(),
          Release())
      .def("parameters", &StepEngine::parameters)
      .def(
          "forward_backward",
          [](StepEngine& engine, const std::vector<MicroBatchTuple>& micro_batches) {
            return engine.forward_backward(to_micro_batches(micro_batches));
          },
          py::arg("micro_batches"),
          Release())
      .def("optimizer_step", &StepEngine::optimizer_step, py::arg("learning_rate"), Release())
      .def("zero_gradients", &StepEngine::zero_gradients)
      .def(
          "plan_recomputation",
          [](StepEngine& engine,
             const std::vector<MicroBatchTuple>& micro_batches,
             int64_t budget_bytes) {
            train::RecomputePlan plan;
            {
              py::gil_scoped_release release;
              plan = engine.plan_recomputation(to_micro_batches(micro_batches), budget_bytes);
            }
            return recompute_plan(plan);
          },
          py::arg("micro_batches"),
          py::arg("budget_bytes"))
      .def("optimizer_state", &StepEngine::optimizer_state)
      .def("load_optimizer_state", &StepEngine::load_optimizer_state, py::arg("state"))
      .def("state_json", &StepEngine::state_json)
      .def("load_state_json", &StepEngine::load_state_json, py::arg("state"))
      .def(
          "find_non_finite",
          [](StepEngine& engine, const std::vector<MicroBatchTuple>& micro_batches) {
            return engine.find_non_finite(to_micro_batches(micro_batches));
          },
          py::arg("micro_batches"),
          Release());
}

}  // namespace

void bind_engine(py::module_& module) {
  module.def(
      "learning_rate",
      &learning_rate,
      py::arg("kind"),
      py::arg("step"),
      py::kw_only(),
      py::arg("peak"),
      py::arg("minimum"),
      py::arg("warmup_steps"),
      py::arg("total_steps"),
      py::arg("decay_fraction"),
      "Learning rate of step 1, 2, ..., total_steps.");
  bind_causal_lm(module);
  bind_step_engine(module);
}

}  // namespace mindspeed::bindings
