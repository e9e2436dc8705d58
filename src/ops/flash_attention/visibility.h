// SPDX-License-Identifier: Apache-2.0
// Which keys a query sees: a band around its own place among the keys. Causal masks and sliding
// windows are both such bands.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mindspeed::ops {

/// Half-open range of tokens of one sequence.
struct TokenRange {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
};

/// Query i of `query_length` stands at place i + key_length - query_length among the keys and sees
/// those from `left` before to `right` after it; a negative bound is none. Both ends of the range
/// rise with the query.
struct Visibility {
  int64_t query_length;
  int64_t key_length;
  int64_t left;
  int64_t right;

  int64_t place(int64_t query) const { return query + key_length - query_length; }

  int64_t first_key(int64_t query) const {
    return left < 0 ? 0 : std::clamp<int64_t>(place(query) - left, 0, key_length);
  }
  int64_t end_key(int64_t query) const {
    return right < 0 ? key_length : std::clamp<int64_t>(place(query) + right + 1, 0, key_length);
  }

  /// Keys that any of the queries sees.
  TokenRange keys_of(TokenRange queries) const {
    return {first_key(queries.begin), end_key(queries.end - 1)};
  }

  /// Queries that see any of the keys.
  TokenRange queries_of(TokenRange keys) const {
    const int64_t shift = key_length - query_length;
    return {
        right < 0 ? 0 : std::clamp<int64_t>(keys.begin - right - shift, 0, query_length),
        left < 0 ? query_length : std::clamp<int64_t>(keys.end + left - shift, 0, query_length)};
  }
};

}  // namespace mindspeed::ops
