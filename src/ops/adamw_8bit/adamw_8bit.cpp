// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw_8bit/adamw_8bit.h"

#include <ATen/ops/bucketize.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "ops/adamw/adamw.h"
#include "ops/adamw_8bit/dynamic_map.h"
#include "ops/optimizer/parameter_lists.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

constexpr const char* kOp = "adamw_8bit_";

void check_scales(const char* name, at::TensorList params, at::TensorList scales) {
  TORCH_CHECK_VALUE(
      scales.size() == params.size(),
      kOp,
      ": ",
      name,
      " must have one tensor a parameter (",
      params.size(),
      "), got ",
      scales.size());
  for (size_t i = 0; i < params.size(); ++i) {
    const auto blocks = (params[i].sym_numel() + kQuantisationBlock - 1) / kQuantisationBlock;
    TORCH_CHECK_VALUE(
        scales[i].dim() == 1 && scales[i].sym_size(0) == blocks && scales[i].is_contiguous() &&
            scales[i].scalar_type() == at::kFloat && scales[i].device() == params[i].device(),
        kOp,
        ": ",
        name,
        " must be contiguous float32 of shape [",
        blocks,
        "] (one a block of 256 elements) on ",
        params[i].device(),
        ", got ",
        scales[i].scalar_type(),
        " ",
        scales[i].sym_sizes(),
        " at index ",
        i);
  }
}

}  // namespace

void check_adamw_8bit(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_scales,
    at::TensorList exp_avg_sqs,
    at::TensorList exp_avg_sq_scales,
    at::TensorList masters) {
  check_settings(kOp, settings);
  check_parameters(kOp, {params, grads, masters});
  TORCH_CHECK_VALUE(
      moment_type(params) == at::kFloat,
      "adamw_8bit_: params must be float32, bfloat16 or float16, got Double; use adamw_");
  check_states(kOp, "exp_avgs", params, exp_avgs, at::kByte);
  check_scales("exp_avg_scales", params, exp_avg_scales);
  check_states(kOp, "exp_avg_sqs", params, exp_avg_sqs, at::kByte);
  check_scales("exp_avg_sq_scales", params, exp_avg_sq_scales);
}

namespace {

// Like under no_grad: leaf parameters are updated, and what saved an older value notices.
void below_autograd(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_scales,
    at::TensorList exp_avg_sqs,
    at::TensorList exp_avg_sq_scales,
    at::TensorList masters) {
  {
    at::AutoDispatchBelowADInplaceOrView below;
    adamw_8bit_(
        params,
        grads,
        {exp_avgs, exp_avg_scales},
        {exp_avg_sqs, exp_avg_sq_scales},
        masters,
        settings);
  }
  bump_versions({params, exp_avgs, exp_avg_scales, exp_avg_sqs, exp_avg_sq_scales, masters});
}

template <size_t kSize>
at::Tensor table(const std::array<float, kSize>& values, size_t count, at::Device device) {
  const auto size = static_cast<int64_t>(count);
  return at::from_blob(const_cast<float*>(values.data()), {size}, at::kFloat).clone().to(device);
}

// Element [i] as [i / 256, i % 256], zeros behind the last.
at::Tensor as_blocks(const at::Tensor& values) {
  const int64_t missing =
      (kQuantisationBlock - values.numel() % kQuantisationBlock) % kQuantisationBlock;
  return at::constant_pad_nd(values.reshape({-1}), {0, missing}).view({-1, kQuantisationBlock});
}

at::Tensor as_shaped(const at::Tensor& blocks, const at::Tensor& like) {
  return blocks.reshape({-1}).narrow(0, 0, like.numel()).view(like.sizes());
}

template <class Values>
at::Tensor dequantise(const at::Tensor& codes, const at::Tensor& scales, const Values& values) {
  const at::Tensor by_code = table(values, values.size(), codes.device());
  const at::Tensor blocks = by_code.index_select(0, codes.reshape({-1}).to(at::kLong));
  return as_shaped(as_blocks(blocks) * scales.unsqueeze(1), codes);
}

template <class Magnitudes>
void quantise(
    const at::Tensor& moment,
    const Magnitudes& map,
    bool is_signed,
    const at::Tensor& codes,
    const at::Tensor& scales) {
  if (moment.numel() == 0) return;
  const at::Tensor blocks = as_blocks(moment);
  scales.copy_(blocks.abs().amax(1));
  const at::Tensor inverse = at::where(scales.gt(0), scales.reciprocal(), 0.0);
  const at::Tensor share = (blocks * inverse.unsqueeze(1)).clamp(-1, 1);
  const at::Tensor bounds = table(map.bounds, map.bounds.size() - 1, moment.device());
  at::Tensor nearest = at::bucketize(share.abs(), bounds);
  if (is_signed) {
    nearest = at::where(share.lt(0), -nearest.clamp_max(kSignedZero), nearest) + kSignedZero;
  }
  codes.copy_(as_shaped(nearest, moment));
}

}  // namespace

namespace reference {

void adamw_8bit_(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_scales,
    at::TensorList exp_avg_sqs,
    at::TensorList exp_avg_sq_scales,
    at::TensorList masters) {
  check_adamw_8bit(
      settings, params, grads, exp_avgs, exp_avg_scales, exp_avg_sqs, exp_avg_sq_scales, masters);
  std::vector<at::Tensor> means, squares;
  for (size_t i = 0; i < params.size(); ++i) {
    means.push_back(dequantise(exp_avgs[i], exp_avg_scales[i], kSignedValues));
    squares.push_back(dequantise(exp_avg_sqs[i], exp_avg_sq_scales[i], kUnsignedValues));
  }
  reference::adamw_(settings, params, grads, means, squares, masters);
  for (size_t i = 0; i < params.size(); ++i) {
    quantise(means[i], kSignedMagnitudes, true, exp_avgs[i], exp_avg_scales[i]);
    quantise(squares[i], kUnsignedMagnitudes, false, exp_avg_sqs[i], exp_avg_sq_scales[i]);
  }
}

}  // namespace reference

void adamw_8bit_(
    at::TensorList params,
    at::TensorList grads,
    const QuantisedMoments& exp_avgs,
    const QuantisedMoments& exp_avg_sqs,
    at::TensorList masters,
    const AdamWSettings& settings) {
  static const auto op = operator_with_settings<&check_adamw_8bit>("mindspeed::adamw_8bit_");
  call_with_settings(
      op,
      settings,
      params,
      grads,
      exp_avgs.codes,
      exp_avgs.scales,
      exp_avg_sqs.codes,
      exp_avg_sqs.scales,
      masters);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "adamw_8bit_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs,"
      " Tensor(c!)[] exp_avg_scales, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] exp_avg_sq_scales,"
      " Tensor(f!)[] masters, *, float lr, float beta1, float beta2, float eps,"
      " float weight_decay, int step, float grad_scale) -> ()");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("adamw_8bit_", flat_settings<&reference::adamw_8bit_>());
}

// The fake kernel only checks.
TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("adamw_8bit_", flat_settings<&check_adamw_8bit>());
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("adamw_8bit_", flat_settings<&below_autograd>());
}

}  // namespace mindspeed::ops
