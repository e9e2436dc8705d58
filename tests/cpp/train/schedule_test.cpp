// SPDX-License-Identifier: Apache-2.0
#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace mindspeed::train {
namespace {

Schedule make(const std::string& kind, int64_t warmup_steps = 10) {
  return {kind, 1.0, 0.1, warmup_steps, 100, 0.2};
}

TEST(Schedule, EveryKindWarmsUpLinearlyAndEndsWhereItShould) {
  for (const std::string& kind : schedule_kinds()) {
    for (int64_t step = 1; step <= 10; ++step) {
      EXPECT_DOUBLE_EQ(learning_rate(make(kind), step), static_cast<double>(step) / 10) << kind;
    }
    const double end = kind == "constant" ? 1.0 : 0.1;
    for (int64_t warmup_steps : {0, 10, 100}) {
      const double expected = warmup_steps == 100 ? 1.0 : end;
      EXPECT_DOUBLE_EQ(learning_rate(make(kind, warmup_steps), 100), expected) << kind;
    }
    EXPECT_DOUBLE_EQ(learning_rate(make(kind), 1000), end) << kind;
  }
}

TEST(Schedule, HalfWay) {
  EXPECT_DOUBLE_EQ(learning_rate(make("cosine"), 55), 0.1 + 0.9 * 0.5);
  EXPECT_DOUBLE_EQ(
      learning_rate(make("cosine"), 40), 0.1 + 0.9 * 0.5 * (1 + std::cos(std::acos(-1.0) / 3)));
  EXPECT_DOUBLE_EQ(learning_rate(make("linear"), 55), 0.1 + 0.9 * 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(make("wsd"), 80), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(make("wsd"), 90), 0.1 + 0.9 * 0.5);
}

TEST(Schedule, NeverRisesAfterWarmUp) {
  for (const std::string& kind : schedule_kinds()) {
    for (int64_t step = 11; step <= 120; ++step) {
      EXPECT_LE(learning_rate(make(kind), step), learning_rate(make(kind), step - 1))
          << kind << " " << step;
    }
  }
}

TEST(Schedule, AnUnknownKindIsRefused) {
  try {
    learning_rate(make("cosin"), 1);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "schedule ('cosin') must be one of: constant, cosine, linear, wsd");
  }
}

}  // namespace
}  // namespace mindspeed::train
