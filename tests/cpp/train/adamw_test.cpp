// SPDX-License-Identifier: Apache-2.0
#include "train/adamw.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

namespace mindspeed::train {
namespace {

at::Tensor parameter(at::ScalarType type) {
  return at::full({3, 5}, 1.0, type).set_requires_grad(true);
}

void step(AdamW& optimizer, at::Tensor& parameter, double gradient) {
  parameter.mutable_grad() = at::full_like(parameter, gradient);
  optimizer.step(1e-4, 1.0);
}

// 1e-4 is below bfloat16's spacing at 1: without a master no step would change the parameter.
TEST(AdamW, SmallStepsOf16BitParametersAddUpInTheirMaster) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    at::Tensor reduced = parameter(type);
    at::Tensor wide = parameter(at::kFloat);
    AdamW of_reduced({{"w", reduced}}, {});
    AdamW of_wide({{"w", wide}}, {});
    for (int i = 0; i < 60; ++i) {
      step(of_reduced, reduced, 0.5);
      step(of_wide, wide, 0.5);
    }
    EXPECT_TRUE(at::equal(of_reduced.state().at("master.w"), wide.detach()));
    EXPECT_TRUE(at::equal(reduced.detach(), wide.detach().to(type)));
    EXPECT_LT(reduced.detach().to(at::kFloat).max().item<float>(), 1.0F);
    EXPECT_EQ(of_wide.state().count("master.w"), 0U);
  }
}

TEST(AdamW, ALoadedStateGoesOnBitForBit) {
  at::Tensor straight = parameter(at::kBFloat16);
  AdamW optimizer({{"w", straight}}, {});
  step(optimizer, straight, 0.5);
  at::Tensor resumed = straight.detach().clone().set_requires_grad(true);
  AdamW again({{"w", resumed}}, {});
  again.load_state(optimizer.state());
  again.set_steps(optimizer.steps());
  for (double gradient : {0.25, -1.0}) {
    step(optimizer, straight, gradient);
    step(again, resumed, gradient);
  }
  EXPECT_TRUE(at::equal(straight.detach(), resumed.detach()));
  EXPECT_TRUE(at::equal(optimizer.state().at("master.w"), again.state().at("master.w")));
}

}  // namespace
}  // namespace mindspeed::train
