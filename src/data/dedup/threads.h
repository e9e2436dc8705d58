// SPDX-License-Identifier: Apache-2.0
// Runs work(0) ... work(num_threads - 1) at the same time; rethrows the first thing thrown.
#pragma once
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mindspeed::data {

template <typename Work>
void run_threads(int num_threads, Work&& work) {
  std::exception_ptr failure;
  std::mutex mutex;
  const auto guarded = [&](int index) {
    try {
      work(index);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads; ++i) threads.emplace_back(guarded, i);
  guarded(0);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace mindspeed::data
