// SPDX-License-Identifier: Apache-2.0
// An operator with many settings has them as flat arguments at the end of its schema and as one
// struct everywhere in C++. The struct is an aggregate with its fields in the schema's order and
//   using Flat = std::tuple<their types>;     Flat flat() const;
// Functions that take the struct take it first; here is the way between the two forms.
#pragma once

#include <ATen/core/ivalue.h>

#include <tuple>
#include <type_traits>

#include "ops/operator_handle.h"

namespace mindspeed::ops {

template <class Function>
struct SettingsOf;

template <class Result, class Settings, class... Args>
struct SettingsOf<Result (*)(const Settings&, Args...)> {
  using Flat = typename Settings::Flat;
};

template <auto kFunction, class Function, class Flat>
struct FlatCall;

template <auto kFunction, class Result, class Settings, class... Args, class... Flat>
struct FlatCall<kFunction, Result (*)(const Settings&, Args...), std::tuple<Flat...>> {
  static Result call(Args... args, Flat... flat) { return kFunction(Settings{flat...}, args...); }
};

// f(settings, args...) as the dispatcher calls it: f(args..., each setting).
template <auto kFunction>
constexpr auto flat_settings() {
  using Function = decltype(kFunction);
  return &FlatCall<kFunction, Function, typename SettingsOf<Function>::Flat>::call;
}

// The operator that `kFunction` is registered for or, as a declaration, stands for.
template <auto kFunction>
auto operator_with_settings(const char* name) {
  return operator_handle<std::remove_pointer_t<decltype(flat_settings<kFunction>())>>(name);
}

template <class Operator, class Settings, class... Args>
auto call_with_settings(const Operator& op, const Settings& settings, const Args&... args) {
  return std::apply([&](auto... flat) { return op.call(args..., flat...); }, settings.flat());
}

// Settings that an autograd context kept as `settings.flat()`.
template <class Settings>
Settings saved_settings(const at::IValue& saved) {
  return std::make_from_tuple<Settings>(saved.to<typename Settings::Flat>());
}

}  // namespace mindspeed::ops
