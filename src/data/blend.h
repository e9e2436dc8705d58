// SPDX-License-Identifier: Apache-2.0
// Which corpus a sample comes from when several are mixed by weight: a pure function of the
// sample's number. Corpus 0 takes floor(n p + phase) of the first n samples, corpus 1 its part of
// the rest, and so on, so each stays within one sample per earlier corpus of its exact share, and
// sees its own samples 0, 1, 2, ... in order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mindspeed::data {

class Blend {
 public:
  // Weights need not sum to one. Throws Error if one is negative or not finite, or none is
  // positive.
  Blend(const std::vector<double>& weights, uint64_t seed);

  struct Place {
    size_t corpus;
    uint64_t sample;  // of that corpus
  };
  Place locate(uint64_t sample) const;

 private:
  struct Split {
    uint64_t share;  // of what the earlier corpora leave, in 2^-64
    uint64_t phase;  // in 2^-64 samples
    bool all;
  };
  std::vector<Split> splits_;
};

}  // namespace mindspeed::data
