// SPDX-License-Identifier: Apache-2.0
// The solver alone: no measuring, costs made by hand.
#include "train/recompute_planner.h"

#include <gtest/gtest.h>

#include <random>

namespace mindspeed::train {
namespace {

using models::Recomputation;

constexpr LayerCosts kCosts{LayerCost{90, 1.0}, LayerCost{40, 1.2}, LayerCost{10, 1.5}};

std::array<int64_t, 3> counts(const std::vector<Recomputation>& plan) {
  std::array<int64_t, 3> result{};
  for (Recomputation kind : plan) result[static_cast<size_t>(kind)] += 1;
  return result;
}

int64_t bytes(const LayerCosts& costs, const std::array<int64_t, 3>& numbers) {
  int64_t total = 0;
  for (size_t kind = 0; kind < 3; ++kind) total += numbers[kind] * costs[kind].kept_bytes;
  return total;
}

double seconds(const LayerCosts& costs, const std::array<int64_t, 3>& numbers) {
  double total = 0;
  for (size_t kind = 0; kind < 3; ++kind)
    total += static_cast<double>(numbers[kind]) * costs[kind].seconds;
  return total;
}

TEST(RecomputePlanner, KeepsAllWhereAllFits) {
  EXPECT_EQ(counts(least_time_plan(kCosts, 4, 360)), (std::array<int64_t, 3>{4, 0, 0}));
}

TEST(RecomputePlanner, PrefersTheCheaperKindThatFits) {
  EXPECT_EQ(counts(least_time_plan(kCosts, 4, 359)), (std::array<int64_t, 3>{3, 1, 0}));
  EXPECT_EQ(counts(least_time_plan(kCosts, 4, 160)), (std::array<int64_t, 3>{0, 4, 0}));
}

TEST(RecomputePlanner, RecomputesEverythingWhereNothingFits) {
  EXPECT_EQ(counts(least_time_plan(kCosts, 4, 39)), (std::array<int64_t, 3>{0, 0, 4}));
}

TEST(RecomputePlanner, PutsTheHeaviestRecomputationFirst) {
  const auto plan = least_time_plan(kCosts, 5, 200);
  EXPECT_TRUE(std::is_sorted(plan.begin(), plan.end(), std::greater<>()));
}

TEST(RecomputePlanner, NoAssignmentBeatsIt) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    LayerCosts costs;
    for (LayerCost& cost : costs) {
      cost = {static_cast<int64_t>(random() % 100), static_cast<double>(random() % 100)};
    }
    const int64_t layers = 1 + static_cast<int64_t>(random() % 5);
    const auto budget = static_cast<int64_t>(random() % 400);
    const auto chosen = counts(least_time_plan(costs, layers, budget));
    int64_t assignments = 1;
    for (int64_t layer = 0; layer < layers; ++layer) assignments *= 3;
    for (int64_t code = 0; code < assignments; ++code) {
      std::array<int64_t, 3> other{};
      for (int64_t layer = 0, rest = code; layer < layers; ++layer, rest /= 3) other[rest % 3] += 1;
      if (bytes(costs, other) > budget) continue;
      EXPECT_LE(bytes(costs, chosen), budget);
      EXPECT_LE(seconds(costs, chosen), seconds(costs, other));
    }
  }
}

TEST(RecomputePlanner, CorrectsTheRoomByWhatIsMeasured) {
  // The step takes 1000 beside the layers, and 30 more than the costs say.
  auto measured = [](const std::vector<Recomputation>& plan) {
    const auto numbers = counts(plan);
    return 1000 + bytes(kCosts, numbers) + (numbers[2] == 4 ? 0 : 30);
  };
  const RecomputePlan plan = fit_recomputation(kCosts, 4, 1300, measured);
  EXPECT_TRUE(plan.fits);
  EXPECT_LE(measured(plan.by_layer), 1300);
  EXPECT_EQ(plan.peak_bytes, measured(plan.by_layer));
  EXPECT_EQ(counts(plan.by_layer), (std::array<int64_t, 3>{2, 2, 0}));
}

TEST(RecomputePlanner, RecomputesNothingWhereThatCostsNoMoreTimeAndFits) {
  // What a noisy clock gives: every kind measured as equally fast.
  constexpr LayerCosts equal{LayerCost{90, 1.0}, LayerCost{40, 1.0}, LayerCost{10, 1.0}};
  auto measured = [&](const std::vector<Recomputation>& plan) {
    return bytes(equal, counts(plan));
  };
  const RecomputePlan plan = fit_recomputation(equal, 4, 1000, measured);
  EXPECT_EQ(counts(plan.by_layer), (std::array<int64_t, 3>{4, 0, 0}));
}

}  // namespace
}  // namespace mindspeed::train
