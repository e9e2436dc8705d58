// SPDX-License-Identifier: Apache-2.0
#include "memory/swapped_state.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "memory/swap_file.h"

namespace mindspeed::memory {
namespace {

// The advice for every page that holds a byte of the tensor.
void advise(const at::Tensor& tensor, int advice) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<size_t>(tensor.const_data_ptr());
  const size_t first = begin / page * page;
  const size_t end = (begin + tensor.nbytes() + page - 1) / page * page;
  if (tensor.nbytes() > 0) madvise(reinterpret_cast<void*>(first), end - first, advice);
}

}  // namespace

struct SwappedState::Mapping {
  Mapping(const std::string& folder, size_t size) : file(folder), bytes(size) {
    if (bytes == 0) return;
    file.reserve(static_cast<int64_t>(bytes));
    address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
    if (address == MAP_FAILED) {
      throw SwapError(
          "memory.swap_folder (" + folder + ") cannot be mapped: " + std::strerror(errno) +
          "; set a folder on a local disk");
    }
  }
  ~Mapping() {
    if (bytes > 0) munmap(address, bytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  SwapFile file;
  size_t bytes;
  void* address = nullptr;
};

SwappedState::SwappedState(const std::string& folder, int64_t elements)
    : mapping_(std::make_shared<Mapping>(folder, elements * sizeof(float))), elements_(elements) {}

at::Tensor SwappedState::take(at::IntArrayRef sizes) {
  const int64_t elements = c10::multiply_integers(sizes);
  TORCH_INTERNAL_ASSERT(taken_ + elements <= elements_);
  float* start = static_cast<float*>(mapping_->address) + std::exchange(taken_, taken_ + elements);
  return at::from_blob(
      start,
      sizes,
      [mapping = mapping_](void* /*start*/) {},
      at::TensorOptions().dtype(at::kFloat));
}

void read_ahead(const at::Tensor& tensor) {
  advise(tensor, MADV_WILLNEED);
}

void drop_pages(const at::Tensor& tensor) {
  advise(tensor, MADV_DONTNEED);
}

}  // namespace mindspeed::memory
