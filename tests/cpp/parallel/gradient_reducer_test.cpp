// SPDX-License-Identifier: Apache-2.0
// Gradients are small whole numbers here, so sums are exact in any order.
#include "parallel/gradient_reducer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "ranks.h"

namespace mindspeed::parallel {
namespace {

using mindspeed::testing::Group;
using mindspeed::testing::num_collectives;
using mindspeed::testing::on_ranks;

constexpr int kRanks = 3;
constexpr int64_t kOneEach = 1;         // bucket bytes: a bucket for every parameter
constexpr int64_t kTogether = 1 << 20;  // all in one bucket

at::Tensor parameter(at::IntArrayRef shape) {
  return at::ones(shape).requires_grad_();
}

std::vector<at::Tensor> make_parameters() {
  return {parameter({3, 2}), parameter({5}), parameter({1})};
}

// The gradient of parameter i is (i + 1) * (rank + 1); the last one is used by rank 0 only.
void backward(const std::vector<at::Tensor>& parameters, int rank) {
  at::Tensor loss = parameters[0].sum() + 2 * parameters[1].sum();
  if (rank == 0) loss = loss + 3 * parameters[2].sum();
  (loss * (rank + 1)).backward();
}

bool all_equal(const at::Tensor& tensor, double value) {
  return tensor.equal(at::full(tensor.sizes(), value));
}

class Buckets : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(GradientReducer, Buckets, ::testing::Values(kOneEach, 24, kTogether));

TEST_P(Buckets, SumOverRanksAndMicroBatches) {
  on_ranks(kRanks, [](const Group& group) {
    const auto parameters = make_parameters();
    GradientReducer reducer(parameters, group, GetParam());
    for (int step = 0; step < 2; ++step) {
      reducer.zero_gradients();
      backward(parameters, group->getRank());
      reducer.begin_last_micro_batch();
      backward(parameters, group->getRank());
      EXPECT_GE(reducer.finish(), 0.0);
      EXPECT_TRUE(all_equal(parameters[0].grad(), 2 * (1 + 2 + 3)));
      EXPECT_TRUE(all_equal(parameters[1].grad(), 2 * 2 * (1 + 2 + 3)));
      EXPECT_TRUE(all_equal(parameters[2].grad(), 2 * 3));
    }
  });
}

TEST(GradientReducer, StartsABucketWithItsLastGradientAndOnlyInTheLastMicroBatch) {
  on_ranks(kRanks, [](const Group& group) {
    const auto parameters = make_parameters();
    GradientReducer reducer(parameters, group, kOneEach);
    reducer.zero_gradients();
    backward(parameters, /*rank=*/0);
    EXPECT_EQ(num_collectives(group), 0);
    reducer.begin_last_micro_batch();
    backward(parameters, /*rank=*/0);
    EXPECT_EQ(num_collectives(group), 3);
    reducer.finish();
    EXPECT_EQ(num_collectives(group), 3);
  });
}

// The backend refuses to let buckets of different sizes meet.
TEST(GradientReducer, OrderOfBucketsDoesNotFollowTheOrderOfGradients) {
  on_ranks(2, [](const Group& group) {
    const auto parameters = make_parameters();
    GradientReducer reducer(parameters, group, kOneEach);
    reducer.zero_gradients();
    reducer.begin_last_micro_batch();
    if (group->getRank() == 0) backward(parameters, 0);  // the other rank has no valid token
    reducer.finish();
    EXPECT_TRUE(all_equal(parameters[0].grad(), 1));
    EXPECT_TRUE(all_equal(parameters[2].grad(), 3));
  });
}

TEST(GradientReducer, TakesGradientsThatSomebodyElseReplaced) {
  on_ranks(kRanks, [](const Group& group) {
    const auto parameters = make_parameters();
    GradientReducer reducer(parameters, group, kTogether);
    for (const at::Tensor& each : parameters) each.mutable_grad() = at::Tensor();  // set_to_none
    reducer.begin_last_micro_batch();
    backward(parameters, group->getRank());
    reducer.finish();
    EXPECT_TRUE(all_equal(parameters[0].grad(), 1 + 2 + 3));
    EXPECT_TRUE(all_equal(parameters[2].grad(), 3));
  });
}

TEST(GradientReducer, RefusesMixedDtypes) {
  on_ranks(1, [](const Group& group) {
    EXPECT_THROW(
        GradientReducer(
            {parameter({2}), at::ones({2}, at::kDouble).requires_grad_()}, group, kTogether),
        c10::ValueError);
  });
}

TEST(Ranks, TheFirstErrorEndsAll) {
  EXPECT_THROW(
      on_ranks(
          2,
          [](const Group& group) {
            if (group->getRank() == 1) throw std::out_of_range("rank 1");
            std::vector<at::Tensor> tensors{at::ones({2})};
            group->allreduce(tensors)->wait();
          }),
      std::out_of_range);
}

}  // namespace
}  // namespace mindspeed::parallel
