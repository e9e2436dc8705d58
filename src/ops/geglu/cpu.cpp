// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, rows over threads.
#include <torch/library.h>

#include "ops/gated/gated.h"
#include "ops/geglu/geglu.h"
#include "ops/geglu/kernel.h"

namespace mindspeed::ops {
namespace {

at::Tensor forward_cpu(const at::Tensor& gate, const at::Tensor& up) {
  if (gate.scalar_type() == at::kDouble) return reference::geglu(gate, up);
  check_gated("geglu", gate, up);
  return gated_forward_cpu(gate, up, geglu_forward_rows);
}

std::tuple<at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  if (gate.scalar_type() == at::kDouble) return reference::geglu_backward(grad, gate, up);
  return gated_backward_cpu(grad, gate, up, geglu_backward_rows);
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("geglu", forward_cpu);
  m.impl("geglu_backward", backward_cpu);
}

}  // namespace mindspeed::ops
