// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are there whole or not at all.
//
// ROOT/step_00000050/ holds one safetensors file a rank and index.json: every file's size and
// checksum, every *global* tensor's dtype, shape and pieces (so that another layout can read it),
// and the trainer's state. It is written in step_00000050.tmp, index last, each file synced, then
// renamed. Ranks do not talk: each leaves a manifest beside its file, rank 0 waits for all
// manifests.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "export.h"
#include "train/safetensors.h"

namespace mindspeed::train {

/// Where a rank's piece of a tensor lies in the global one.
struct TensorPlace {
  std::vector<int64_t> global_shape;
  std::vector<int64_t> start;
};

class MINDSPEED_API CheckpointWriter {
 public:
  /// Keeps `keep_last` checkpoints under `root`: the one just written and those before it. Rank 0
  /// removes what killed runs left half-written. Throws std::runtime_error if root cannot be made.
  CheckpointWriter(std::string root, int64_t keep_last, int64_t rank, int64_t world_size);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Writes this rank's pieces; a tensor without a place is whole. Waits for the write before.
  /// Asynchronous: copies the tensors, then returns while a thread writes. A failed write leaves
  /// the older checkpoints and no .tmp folder. Throws std::runtime_error (of this write, or of the
  /// one before when asynchronous).
  void save(
      int64_t step,
      const std::map<std::string, at::Tensor>& tensors,
      const std::map<std::string, TensorPlace>& places,
      const std::string& state_json,
      bool asynchronous);

  /// Waits for the write under way. Throws std::runtime_error if it failed.
  void wait();

 private:
  struct Job;
  void run(const Job& job) const;
  void write_own_part(const Job& job) const;
  void publish(const Job& job) const;
  void remove_old(const Job& job) const;

  std::string root_;
  int64_t keep_last_;
  int64_t rank_;
  int64_t world_size_;
  std::thread thread_;
  std::string error_;
};

class MINDSPEED_API CheckpointReader {
 public:
  /// With `verify` every file is compared with its size and checksum.
  /// Throws std::runtime_error saying file, what was expected and what was found.
  explicit CheckpointReader(std::string folder, bool verify = true);

  const std::string& state_json() const { return state_json_; }
  std::vector<std::string> names() const;

  /// The global tensor, put together from its pieces.
  at::Tensor read(const std::string& name) const;

  /// Rows [start, start + length) of the global tensor.
  at::Tensor read_rows(const std::string& name, int64_t start, int64_t length) const;

 private:
  struct Piece {
    std::string file;
    std::vector<int64_t> start;
    std::vector<int64_t> shape;
  };
  struct Entry {
    std::vector<int64_t> shape;
    std::vector<Piece> pieces;
  };
  const SafetensorsFile& file(const std::string& name) const;
  const Entry& entry(const std::string& name) const;

  std::string folder_;
  std::string state_json_;
  std::map<std::string, Entry> entries_;
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

/// The newest checkpoint under `root` that verifies (empty: none), and for each newer one why it
/// was rejected.
MINDSPEED_API std::pair<std::string, std::vector<std::string>> find_checkpoint(
    const std::string& root);

}  // namespace mindspeed::train
