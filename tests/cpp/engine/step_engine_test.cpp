// SPDX-License-Identifier: Apache-2.0
// The engine from C++ alone: spec, initial weights, a training step, non-finite search. (Multi-rank
// behaviour is tested over real Gloo processes in tests/distributed.)
#include "train/step_engine.h"

#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/initialisation.h"

namespace mindspeed {
namespace {

models::ModelSpec small_spec() {
  models::ModelSpec spec;
  spec.vocab_size = 50;
  spec.hidden_size = 32;
  spec.num_layers = 2;
  spec.attention = {"grouped_query", 4, 2, 8, false};
  spec.mlp.intermediate_size = 48;
  return spec;
}

std::shared_ptr<models::CausalLM> make_model(uint64_t seed = 1) {
  return std::make_shared<models::CausalLM>(small_spec(), at::kCPU, parallel::Mesh(), seed);
}

models::MicroBatch make_batch() {
  return {
      at::randint(50, {2, 12}, at::kLong),
      at::randint(50, {2, 12}, at::kLong),
      std::nullopt,
      std::nullopt};
}

TEST(ModelSpec, RoundTripsThroughJson) {
  const models::ModelSpec spec = small_spec();
  EXPECT_EQ(models::ModelSpec::from_json(spec.to_json()).to_json(), spec.to_json());
}

TEST(ModelSpec, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(models::ModelSpec::from_json("{\"depth\": 3}"), std::invalid_argument);
  EXPECT_THROW(models::ModelSpec::from_json("{\"hidden_size\": \"wide\"}"), std::invalid_argument);
  EXPECT_THROW(
      models::ModelSpec::from_json("{\"mlp\": {\"kind\": \"sparse\"}}"), std::invalid_argument);
  EXPECT_THROW(models::ModelSpec::from_json("[]"), std::invalid_argument);
}

TEST(Initialisation, IsNormalAndDependsOnSeedAndNameOnly) {
  const parallel::ParameterOwner owner{{300, 400}, "", 0};
  auto fill = [&](const char* name, uint64_t seed) {
    at::Tensor values = at::empty({300, 400});
    models::fill_normal(values, owner, parallel::Mesh(), name, seed, 0.5);
    return values;
  };
  const at::Tensor values = fill("a", 1);
  EXPECT_TRUE(values.equal(fill("a", 1)));
  EXPECT_FALSE(values.equal(fill("b", 1)));
  EXPECT_FALSE(values.equal(fill("a", 2)));
  // 120,000 samples: the mean's standard error is 0.5 / sqrt(n), the deviation's 0.5 / sqrt(2n);
  // five of each.
  const double n = 120000;
  EXPECT_NEAR(values.mean().item<double>(), 0.0, 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(values.std().item<double>(), 0.5, 5 * 0.5 / std::sqrt(2 * n));
}

TEST(StepEngine, LearnsABatchByHeart) {
  train::StepSettings settings;
  settings.optimizer.emplace();
  train::StepEngine engine(make_model(), settings, nullptr);
  const models::MicroBatch batch = make_batch();
  const double first = engine.forward_backward({batch}).loss;
  EXPECT_NEAR(first, std::log(50.0), 0.2);
  double last = first;
  for (int step = 0; step < 40; ++step) {
    last = engine.forward_backward({batch}).loss;
    engine.optimizer_step(1e-2);
  }
  EXPECT_LT(last, 0.3 * first);
}

TEST(StepEngine, StateRoundTripContinuesBitForBit) {
  train::StepSettings settings;
  settings.optimizer.emplace();
  auto model = make_model();
  train::StepEngine engine(model, settings, nullptr);
  const models::MicroBatch batch = make_batch();
  for (int step = 0; step < 3; ++step) {
    engine.forward_backward({batch});
    engine.optimizer_step(1e-2);
  }
  auto copy = make_model(/*seed=*/9);
  train::StepEngine resumed(copy, settings, nullptr);
  {
    at::NoGradGuard no_grad;
    auto target = copy->named_parameters();
    for (const auto& item : model->named_parameters()) target[item.key()].copy_(item.value());
  }
  resumed.load_optimizer_state(engine.optimizer_state());
  resumed.load_state_json(engine.state_json());
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(engine.forward_backward({batch}).loss, resumed.forward_backward({batch}).loss);
    engine.optimizer_step(1e-2);
    resumed.optimizer_step(1e-2);
  }
}

TEST(StepEngine, ASkippedStepChangesNothing) {
  train::StepSettings settings;
  settings.optimizer.emplace();
  auto model = make_model();
  train::StepEngine engine(model, settings, nullptr);
  at::Tensor weight = model->named_parameters()["model.layers.0.mlp.up_proj.weight"];
  {
    at::NoGradGuard no_grad;
    weight.view(-1)[0] = NAN;
  }
  const at::Tensor other = model->named_parameters()["lm_head.weight"].clone();
  EXPECT_FALSE(engine.forward_backward({make_batch()}).finite);
  engine.optimizer_step(1e-2);
  EXPECT_TRUE(other.equal(model->named_parameters()["lm_head.weight"]));
  EXPECT_EQ(
      engine.find_non_finite({make_batch()}), "model.layers.0.mlp.up_proj.weight (parameter)");
}

TEST(LossScaler, BacksOffAndGrows) {
  train::LossScaler scaler(/*enabled=*/true);
  const double first = scaler.scale();
  scaler.update(/*overflowed=*/true);
  EXPECT_EQ(scaler.scale(), first / 2);
  for (int64_t step = 0; step < train::LossScaler::kGrowthInterval; ++step) scaler.update(false);
  EXPECT_EQ(scaler.scale(), first);
  train::LossScaler copy(true);
  scaler.update(true);
  copy.load_state_json(scaler.state_json());
  EXPECT_EQ(copy.scale(), scaler.scale());
  EXPECT_THROW(copy.load_state_json("{}"), std::invalid_argument);
}

}  // namespace
}  // namespace mindspeed
