// SPDX-License-Identifier: Apache-2.0
#include "ops/squared_norm/squared_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_squared_norm(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    check_float("squared_norm", "tensors", tensor);
    TORCH_CHECK_VALUE(
        tensor.device() == tensors[0].device(),
        "squared_norm: tensors must be on one device, got ",
        tensors[0].device(),
        " and ",
        tensor.device());
  }
}

namespace {

at::TensorOptions result_options(at::TensorList tensors) {
  const at::Device device = tensors.empty() ? at::Device(at::kCPU) : tensors[0].device();
  return at::TensorOptions().dtype(at::kDouble).device(device);
}

at::Tensor fake(at::TensorList tensors) {
  check_squared_norm(tensors);
  return at::empty({}, result_options(tensors));
}

}  // namespace

namespace reference {

at::Tensor squared_norm(at::TensorList tensors) {
  check_squared_norm(tensors);
  at::Tensor sum = at::zeros({}, result_options(tensors));
  for (const at::Tensor& tensor : tensors) sum += tensor.detach().to(at::kDouble).square().sum();
  return sum;
}

}  // namespace reference

at::Tensor squared_norm(at::TensorList tensors) {
  static const auto op = operator_handle<decltype(squared_norm)>("mindspeed::squared_norm");
  return op.call(tensors);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("squared_norm(Tensor[] tensors) -> Tensor");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("squared_norm", reference::squared_norm);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("squared_norm", fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("squared_norm", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
