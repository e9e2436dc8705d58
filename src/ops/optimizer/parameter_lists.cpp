// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/parameter_lists.h"

#include <c10/util/Exception.h>

namespace mindspeed::ops {
namespace {

void check_length(const char* op, const char* name, at::TensorList params, at::TensorList others) {
  TORCH_CHECK_VALUE(
      params.size() == others.size(),
      op,
      ": ",
      name,
      " must have one tensor a parameter (",
      params.size(),
      "), got ",
      others.size());
}

void check_contiguous(const char* op, const char* name, const at::Tensor& tensor, size_t index) {
  TORCH_CHECK_VALUE(
      tensor.is_contiguous(),
      op,
      ": ",
      name,
      " must be contiguous, got strides ",
      tensor.sym_strides(),
      " at index ",
      index);
}

void check_like(
    const char* op,
    const char* name,
    const at::Tensor& param,
    const at::Tensor& other,
    at::ScalarType type) {
  TORCH_CHECK_VALUE(
      other.sym_sizes().equals(param.sym_sizes()),
      op,
      ": ",
      name,
      " must have the shape of params ",
      param.sym_sizes(),
      ", got ",
      other.sym_sizes());
  TORCH_CHECK_VALUE(
      other.scalar_type() == type,
      op,
      ": ",
      name,
      " must be ",
      type,
      " where params are ",
      param.scalar_type(),
      ", got ",
      other.scalar_type());
  TORCH_CHECK_VALUE(
      other.device() == param.device(),
      op,
      ": ",
      name,
      " must be on the device of params (",
      param.device(),
      "), got ",
      other.device());
}

}  // namespace

void check_parameters(const char* op, const ParameterLists& lists) {
  const auto [params, grads, masters] = lists;
  for (size_t i = 0; i < params.size(); ++i) {
    const at::ScalarType type = params[i].scalar_type();
    TORCH_CHECK_VALUE(
        type == params[0].scalar_type() && (type == at::kFloat || type == at::kDouble ||
                                            type == at::kBFloat16 || type == at::kHalf),
        op,
        ": params must all be float32, float64, bfloat16 or float16 and of one dtype, got ",
        type,
        " at index ",
        i);
    check_contiguous(op, "params", params[i], i);
  }
  check_length(op, "grads", params, grads);
  for (size_t i = 0; i < params.size(); ++i) {
    check_like(op, "grads", params[i], grads[i], params[i].scalar_type());
  }
  if (params.empty()) return;
  if (c10::isReducedFloatingType(params[0].scalar_type())) {
    check_states(op, "masters", params, masters, at::kFloat);
  } else {
    TORCH_CHECK_VALUE(
        masters.empty(),
        op,
        ": masters must be empty for ",
        params[0].scalar_type(),
        " params, which are updated themselves, got ",
        masters.size());
  }
}

void check_states(
    const char* op,
    const char* name,
    at::TensorList params,
    at::TensorList states,
    at::ScalarType type) {
  check_length(op, name, params, states);
  for (size_t i = 0; i < params.size(); ++i) {
    check_like(op, name, params[i], states[i], type);
    check_contiguous(op, name, states[i], i);
  }
}

at::ScalarType moment_type(at::TensorList params) {
  return !params.empty() && params[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::vector<at::Tensor> contiguous_gradients(at::TensorList grads) {
  std::vector<at::Tensor> dense;
  for (const at::Tensor& grad : grads) dense.push_back(grad.contiguous());
  return dense;
}

void bump_versions(std::initializer_list<at::TensorList> lists) {
  for (const at::TensorList list : lists) {
    for (const at::Tensor& tensor : list) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace mindspeed::ops
