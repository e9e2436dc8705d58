// SPDX-License-Identifier: Apache-2.0
// What the optimizers' operators share: the checks of their lists of tensors, and the lists cut
// into runs of elements over threads.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mindspeed::ops {

// The parameters of one call. masters: a float32 tensor for each bfloat16 or float16 parameter, of
// which the parameter is the rounded copy; empty for float32 and float64 parameters.
struct ParameterLists {
  at::TensorList params;
  at::TensorList grads;
  at::TensorList masters;

  // What the arithmetic updates.
  const at::Tensor& weight(size_t index) const {
    return masters.empty() ? params[index] : masters[index];
  }
};

// Raises ValueError in the name of operator `op` unless all parameters have one dtype and are
// contiguous, gradients are like parameters, and masters are as ParameterLists says.
void check_parameters(const char* op, const ParameterLists& lists);

// Raises ValueError unless there is one contiguous tensor of dtype `type` a parameter, of its
// shape.
void check_states(
    const char* op,
    const char* name,
    at::TensorList params,
    at::TensorList states,
    at::ScalarType type);

// The dtype of moments: float32, or float64 for float64 parameters.
at::ScalarType moment_type(at::TensorList params);

// What a backward saved of the tensors before the update is out of date.
void bump_versions(std::initializer_list<at::TensorList> lists);

// The gradients as kernels read them; owns the copies of those that lie strided in memory.
std::vector<at::Tensor> contiguous_gradients(at::TensorList grads);

// The start of a run of elements in a contiguous tensor.
inline void* elements(const at::Tensor& tensor, int64_t begin) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + begin * tensor.element_size();
}
inline float* float_elements(const at::Tensor& tensor, int64_t begin) {
  return tensor.mutable_data_ptr<float>() + begin;
}

// Calls body(tensor index, first element, elements) for runs of at most `run_size` elements of each
// tensor, and collects what it gives.
template <class Body>
auto cut_into_runs(at::TensorList tensors, int64_t run_size, const Body& body) {
  std::vector<decltype(body(size_t{0}, int64_t{0}, int64_t{0}))> runs;
  for (size_t index = 0; index < tensors.size(); ++index) {
    const int64_t size = tensors[index].numel();
    for (int64_t begin = 0; begin < size; begin += run_size) {
      runs.push_back(body(index, begin, std::min(run_size, size - begin)));
    }
  }
  return runs;
}

// Runs are independent, so the result is the same on any number of threads.
template <class Run, class Update>
void update_runs(const std::vector<Run>& runs, const Update& update) {
  at::parallel_for(0, static_cast<int64_t>(runs.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) update(runs[run]);
  });
}

}  // namespace mindspeed::ops
