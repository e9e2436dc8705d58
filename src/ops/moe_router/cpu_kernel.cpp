// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_router/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/moe_router/cpu_kernel.cpp"
#include <algorithm>
#include <cmath>
#include <vector>

#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/sigmoid-inl.h"
#include "simd/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

// Writes the token's scores, and for sigmoid 1 - score, into rows of padded_size(num_experts).
template <class T>
void score(const MoeScoring& args, int64_t token, float* scores, float* complements) {
  const sv::FloatTag d;
  const T* logits = static_cast<const T*>(args.logits) + token * args.logits_stride;
  sv::for_each_vector(args.num_experts, [&](auto access, size_t i) {
    const auto logit = access.load(d, logits + i);
    if (args.sigmoid) {
      const auto [value, complement] = sv::sigmoid(d, logit);
      access.store(value, d, scores + i);
      access.store(complement, d, complements + i);
    } else {
      access.store(logit, d, scores + i);
    }
  });
  if (!args.sigmoid) sv::softmax_in_place(scores, args.num_experts);
}

// A NaN counts as largest.
inline bool larger(float a, float b) {
  return a > b || (std::isnan(a) && !std::isnan(b));
}

// Places of the `count` largest of values[0, size), largest first, of equal ones the first first.
void pick_largest(const float* values, int64_t size, int64_t count, int64_t* places) {
  int64_t found = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (found == count && !larger(values[i], values[places[count - 1]])) continue;
    int64_t place = found < count ? found++ : count - 1;
    for (; place > 0 && larger(values[i], values[places[place - 1]]); --place) {
      places[place] = places[place - 1];
    }
    places[place] = i;
  }
}

// The sum of the two largest.
float two_largest(const float* values, int64_t size) {
  float first = std::max(values[0], values[1]);
  float second = std::min(values[0], values[1]);
  for (int64_t i = 2; i < size; ++i) {
    second = std::max(second, std::min(first, values[i]));
    first = std::max(first, values[i]);
  }
  return first + second;
}

// Leaves out the experts of all but the best groups.
void limit_groups(const MoeRouterForward& args, float* choice) {
  const int64_t size = args.scoring.num_experts / args.num_groups;
  std::vector<float> groups(args.num_groups);
  for (int64_t group = 0; group < args.num_groups; ++group) {
    const float* values = choice + group * size;
    groups[group] = args.correction_bias == nullptr ? *std::max_element(values, values + size)
                                                    : two_largest(values, size);
  }
  std::vector<int64_t> order(args.num_groups);
  pick_largest(groups.data(), args.num_groups, args.num_groups, order.data());
  for (int64_t place = args.top_k_groups; place < args.num_groups; ++place) {
    std::fill_n(choice + order[place] * size, size, sv::kLeftOut);
  }
}

template <class T>
void forward(const MoeRouterForward& args, int64_t begin, int64_t end) {
  const MoeScoring& scoring = args.scoring;
  const size_t room = sv::padded_size(scoring.num_experts);
  std::vector<float> scores(room), complements(room), choice(scoring.num_experts);
  for (int64_t token = begin; token < end; ++token) {
    score<T>(scoring, token, scores.data(), complements.data());
    for (int64_t i = 0; i < scoring.num_experts; ++i) {
      const float bias = args.correction_bias == nullptr ? 0.0F : args.correction_bias[i];
      choice[i] = scores[i] + bias;
    }
    if (args.num_groups > 1) limit_groups(args, choice.data());
    int64_t* experts = args.experts + token * scoring.top_k;
    float* weights = args.weights + token * scoring.top_k;
    pick_largest(choice.data(), scoring.num_experts, scoring.top_k, experts);
    float sum = static_cast<float>(kTinySum);
    for (int64_t k = 0; k < scoring.top_k; ++k) sum += scores[experts[k]];
    const float factor = scoring.scaling_factor / (scoring.renormalize ? sum : 1.0F);
    for (int64_t k = 0; k < scoring.top_k; ++k) weights[k] = scores[experts[k]] * factor;
  }
}

// Gradient of the token's chosen scores:  w_i = c s_i / S:  ds_i = c / S (g_i - sum_j g_j s_j / S)
void score_gradients(
    const MoeScoring& args,
    const float* grad_weights,
    const int64_t* experts,
    const float* scores,
    float* grad_scores) {
  float sum = static_cast<float>(kTinySum);
  float dot = 0.0F;
  for (int64_t k = 0; k < args.top_k; ++k) {
    sum += scores[experts[k]];
    dot += grad_weights[k] * scores[experts[k]];
  }
  for (int64_t k = 0; k < args.top_k; ++k) {
    grad_scores[k] = args.renormalize ? args.scaling_factor / sum * (grad_weights[k] - dot / sum)
                                      : args.scaling_factor * grad_weights[k];
  }
}

template <class T>
void backward(const MoeRouterBackward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  const MoeScoring& scoring = args.scoring;
  const size_t room = sv::padded_size(scoring.num_experts);
  std::vector<float> scores(room), complements(room), grad(scoring.num_experts);
  std::vector<float> grad_scores(scoring.top_k);
  for (int64_t token = begin; token < end; ++token) {
    score<T>(scoring, token, scores.data(), complements.data());
    const int64_t* experts = args.experts + token * scoring.top_k;
    score_gradients(
        scoring,
        args.grad_weights + token * scoring.top_k,
        experts,
        scores.data(),
        grad_scores.data());
    float pull = 0.0F;  // softmax: sum of grad_score * score; sigmoid: each score is its own
    if (!scoring.sigmoid) {
      for (int64_t k = 0; k < scoring.top_k; ++k) pull += grad_scores[k] * scores[experts[k]];
    }
    for (int64_t i = 0; i < scoring.num_experts; ++i) grad[i] = -pull * scores[i];
    for (int64_t k = 0; k < scoring.top_k; ++k) {
      const int64_t i = experts[k];
      grad[i] = scoring.sigmoid ? grad_scores[k] * scores[i] * complements[i]
                                : scores[i] * (grad_scores[k] - pull);
    }
    T* grad_logits = static_cast<T*>(args.grad_logits) + token * scoring.num_experts;
    sv::for_each_vector(scoring.num_experts, [&](auto access, size_t i) {
      access.store(access.load(d, grad.data() + i), d, grad_logits + i);
    });
  }
}

void moe_router_forward_all(const MoeRouterForward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.scoring.type, [&](auto element) { forward<decltype(element)>(args, begin, end); });
}

void moe_router_backward_all(const MoeRouterBackward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.scoring.type, [&](auto element) { backward<decltype(element)>(args, begin, end); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(moe_router_forward_all);
HWY_EXPORT(moe_router_backward_all);

void moe_router_forward_rows(const MoeRouterForward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(moe_router_forward_all)(args, begin, end);
}

void moe_router_backward_rows(const MoeRouterBackward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(moe_router_backward_all)(args, begin, end);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
