// SPDX-License-Identifier: Apache-2.0
// Trains a small byte-level LLaMA on a text file, in C++ alone: one header, one library, no Python.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <mindspeed.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

constexpr int64_t kSequence = 128;
constexpr int64_t kBatch = 4;

// Row `row` of step `step`: kSequence bytes and the bytes that follow each.
mindspeed::models::MicroBatch make_batch(const at::Tensor& text, int64_t step) {
  std::vector<at::Tensor> inputs, labels;
  const int64_t places = text.size(0) - kSequence - 1;
  for (int64_t row = 0; row < kBatch; ++row) {
    const int64_t start = (step * kBatch + row) * 7919 % places;
    inputs.push_back(text.narrow(0, start, kSequence));
    labels.push_back(text.narrow(0, start + 1, kSequence));
  }
  return {at::stack(inputs), at::stack(labels), std::nullopt, std::nullopt};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: cpp_train TEXT_FILE\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (static_cast<int64_t>(bytes.size()) < kSequence + 2) {
    std::fprintf(stderr, "cpp_train: %s must hold at least %ld bytes\n", argv[1], kSequence + 2);
    return 1;
  }
  at::Tensor text =
      at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte).to(at::kLong);

  mindspeed::models::ModelSpec spec;
  spec.vocab_size = 256;
  spec.hidden_size = 64;
  spec.num_layers = 2;
  spec.attention = {"grouped_query", 4, 2, 16, false};
  spec.mlp.intermediate_size = 176;
  auto model = std::make_shared<mindspeed::models::CausalLM>(
      spec, at::kCPU, mindspeed::parallel::Mesh(), /*seed=*/1234);

  mindspeed::train::StepSettings settings;
  settings.optimizer.emplace();
  mindspeed::train::StepEngine engine(model, settings, /*group=*/nullptr);
  for (int64_t step = 0; step < 60; ++step) {
    auto stats = engine.forward_backward({make_batch(text, step)});
    engine.optimizer_step(3e-3);
    if (step % 10 == 9) std::printf("step %ld loss %.3f\n", step + 1, stats.loss);
  }
}
