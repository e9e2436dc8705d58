// SPDX-License-Identifier: Apache-2.0
// Values and gradients are small whole numbers here, so sums and float16 copies are exact.
#include "parallel/sharded_unit.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "ranks.h"

namespace mindspeed::parallel {
namespace {

using mindspeed::testing::Group;
using mindspeed::testing::on_ranks;

// Sizes that three ranks share unevenly; the second leaves a rank with nothing.
std::vector<at::Tensor> make_parameters() {
  std::vector<at::Tensor> parameters;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5, 3}, {2}, {1, 3}, {3, 7}}) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    parameters.push_back(at::arange(count, at::kFloat).view(shape).requires_grad_());
  }
  return parameters;
}

at::Tensor rows_of(const at::Tensor& whole, const Group& group) {
  const ShardRows mine = shard_rows(whole.size(0), group->getRank(), group->getSize());
  return whole.detach().narrow(0, mine.start, mine.length);
}

// A loss that uses all but the second parameter, quadratic so that backward needs what forward
// saved.
at::Tensor loss_of(const std::vector<at::Tensor>& parameters, int factor) {
  const at::Tensor row = (parameters[0] * parameters[0]).sum(0, /*keepdim=*/true) + parameters[2];
  return (row.sum() + parameters[3].sum()).to(at::kFloat) * factor;
}

TEST(ShardRows, FollowTorchChunk) {
  for (int64_t size = 1; size <= 5; ++size) {
    for (int64_t rows = 1; rows <= 11; ++rows) {
      const auto chunks = at::arange(rows).chunk(size);
      for (int64_t rank = 0; rank < size; ++rank) {
        const ShardRows mine = shard_rows(rows, rank, size);
        if (rank < static_cast<int64_t>(chunks.size())) {
          EXPECT_TRUE(at::arange(rows).narrow(0, mine.start, mine.length).equal(chunks[rank]));
        } else {
          EXPECT_EQ(mine.length, 0);
        }
      }
    }
  }
}

class WorldSize : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ShardedUnit, WorldSize, ::testing::Values(1, 2, 3, 4));

TEST_P(WorldSize, ShardsBetweenWholeWithin) {
  on_ranks(GetParam(), [](const Group& group) {
    const auto parameters = make_parameters();
    const auto expected = make_parameters();
    ShardedUnit unit(parameters, group);
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(parameters[i].detach().equal(rows_of(expected[i], group)));
      }
      unit.start_gather();
      unit.gather();
      EXPECT_TRUE(unit.is_gathered());
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(parameters[i].detach().equal(expected[i].detach()));
      }
      unit.release();
    }
  });
}

TEST_P(WorldSize, GradientsAreSummedScaledAndAccumulated) {
  on_ranks(GetParam(), [](const Group& group) {
    const auto parameters = make_parameters();
    const auto plain = make_parameters();
    ShardedUnit unit(parameters, group);
    for (int micro_batch = 1; micro_batch <= 2; ++micro_batch) {
      unit.gather();
      const at::Tensor loss = loss_of(parameters, micro_batch * (group->getRank() + 1));
      unit.release();  // what backward saved is gone, and comes back
      unit.gather();
      loss.backward();
      unit.start_gradient_reduction(0.5);
      unit.release();
      for (int rank = 0; rank < group->getSize(); ++rank) {
        (loss_of(plain, micro_batch * (rank + 1)) * 0.5).backward();
      }
    }
    EXPECT_GE(unit.finish_gradient_reduction(), 0.0);
    unit.attach_gradients();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor expected =
          plain[i].grad().defined() ? plain[i].grad() : at::zeros_like(plain[i]);
      EXPECT_TRUE(parameters[i].grad().equal(rows_of(expected, group))) << "parameter " << i;
    }
    unit.zero_gradients();
    EXPECT_FALSE(parameters[0].grad().defined());
  });
}

TEST(ShardedUnit, AnUpdateOfTheShardsIsSeenByTheNextGather) {
  on_ranks(2, [](const Group& group) {
    const auto parameters = make_parameters();
    const auto before = make_parameters();
    ShardedUnit unit(parameters, group);
    {
      at::NoGradGuard no_grad;
      for (at::Tensor shard : parameters) shard.add_(1);
    }
    unit.gather();
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(parameters[i].detach().equal(before[i].detach() + 1));
    }
  });
}

TEST(ShardedUnit, ComputesInHalfAndKeepsFloat32) {
  on_ranks(2, [](const Group& group) {
    const auto parameters = make_parameters();
    ShardedUnit unit(parameters, group, at::kHalf);
    EXPECT_EQ(parameters[0].scalar_type(), at::kFloat);
    unit.gather();
    EXPECT_EQ(parameters[0].scalar_type(), at::kHalf);
    loss_of(parameters, 1).backward();
    unit.start_gradient_reduction(1.0);
    unit.release();
    unit.finish_gradient_reduction();
    unit.attach_gradients();
    EXPECT_EQ(parameters[0].scalar_type(), at::kFloat);
    EXPECT_EQ(parameters[0].grad().scalar_type(), at::kFloat);
    EXPECT_TRUE(parameters[0].grad().equal(4 * parameters[0].detach()));  // two ranks, d(x*x) = 2x
  });
}

TEST(ShardedUnit, RefusesWhatItCannotCut) {
  on_ranks(1, [](const Group& group) {
    EXPECT_THROW(ShardedUnit({at::ones({2}, at::kDouble)}, group), c10::ValueError);
    EXPECT_THROW(ShardedUnit({at::ones({})}, group), c10::ValueError);
  });
}

}  // namespace
}  // namespace mindspeed::parallel
