// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <c10/util/accumulate.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mindspeed::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr auto kPeerTimeLimit = std::chrono::minutes(10);  // for the slowest rank's file
constexpr const char* kIndexName = "index.json";
constexpr const char* kIndexChecksumName = "index.xxh64";

std::string numbered(const char* format, int64_t number) {
  char text[64];
  std::snprintf(text, sizeof(text), format, static_cast<long long>(number));
  return text;
}

std::string folder_name(int64_t step) {
  return numbered("step_%08lld", step);
}
std::string data_name(int64_t rank) {
  return numbered("rank-%05lld.safetensors", rank);
}
std::string manifest_name(int64_t rank) {
  return numbered("rank-%05lld.json", rank);
}

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw std::runtime_error(path.string() + ": " + what);
}

// Writes a small text under a temporary name, syncs and renames it.
void write_text(const fs::path& path, const std::string& text) {
  const fs::path partial = path.string() + ".partial";
  const int descriptor = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(path, std::string("cannot be written: ") + std::strerror(errno));
  size_t done = 0;
  bool good = true;
  while (good && done < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + done, text.size() - done);
    good = count > 0;
    if (good) done += static_cast<size_t>(count);
  }
  good = good && ::fsync(descriptor) == 0;
  const std::string error = std::strerror(errno);
  ::close(descriptor);
  if (!good) fail(path, "cannot be written: " + error);
  fs::rename(partial, path);
}

// A manifest that tells rank 0 of an error. On a full disk at least the empty file has to appear.
void report_failure(const fs::path& path, const std::string& error) {
  try {
    write_text(path, json{{"error", error}}.dump());
  } catch (const std::exception&) {
    std::ofstream empty(path);
  }
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "is missing");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// step_NNNNNNNN folders under root, newest first.
std::vector<fs::path> list_checkpoints(const std::string& root) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename();
    const bool is_step =
        name.rfind("step_", 0) == 0 && name.size() > 5 &&
        std::all_of(name.begin() + 5, name.end(), [](unsigned char c) { return std::isdigit(c); });
    if (is_step && entry.is_directory()) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

json read_index(const fs::path& folder) {
  const std::string text = read_text(folder / kIndexName);
  const std::string expected = read_text(folder / kIndexChecksumName);
  const std::string actual = hex(XXH64(text.data(), text.size(), 0));
  if (expected != actual) {
    fail(folder / kIndexName, "is damaged: checksum expected " + expected + ", found " + actual);
  }
  json index = json::parse(text);
  if (index.at("format") != kFormat) {
    fail(
        folder / kIndexName,
        "has format " + index.at("format").dump() + ", this version reads " +
            std::to_string(kFormat));
  }
  return index;
}

void verify_file(const fs::path& path, const json& expected) {
  if (!fs::exists(path)) fail(path, "is missing");
  const FileSummary found = summarize_file(path);
  const auto bytes = expected.at("size").get<uint64_t>();
  if (found.bytes != bytes) {
    fail(
        path,
        "is truncated or grown: " + std::to_string(bytes) + " bytes expected, " +
            std::to_string(found.bytes) + " found");
  }
  const auto checksum = expected.at("xxh64").get<std::string>();
  if (hex(found.checksum) != checksum) {
    fail(path, "is damaged: checksum expected " + checksum + ", found " + hex(found.checksum));
  }
}

}  // namespace

struct CheckpointWriter::Job {
  int64_t step;
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, TensorPlace> places;
  std::string state_json;
  fs::path temporary;
  fs::path target;
};

CheckpointWriter::CheckpointWriter(
    std::string root, int64_t keep_last, int64_t rank, int64_t world_size)
    : root_(std::move(root)), keep_last_(keep_last), rank_(rank), world_size_(world_size) {
  std::error_code error;
  fs::create_directories(root_, error);
  if (error) fail(root_, "cannot be made: " + error.message());
  if (rank_ != 0) return;
  for (const auto& entry : fs::directory_iterator(root_)) {
    const std::string name = entry.path().filename();
    const bool left_over =
        name.rfind("step_", 0) == 0 && (name.ends_with(".tmp") || name.ends_with(".old"));
    if (left_over) fs::remove_all(entry.path(), error);
  }
}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::save(
    int64_t step,
    const std::map<std::string, at::Tensor>& tensors,
    const std::map<std::string, TensorPlace>& places,
    const std::string& state_json,
    bool asynchronous) {
  wait();
  const fs::path target = fs::path(root_) / folder_name(step);
  auto job = std::make_shared<Job>(
      Job{step, tensors, places, state_json, target.string() + ".tmp", target});
  if (!asynchronous) return run(*job);
  for (auto& [name, tensor] : job->tensors)
    tensor = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  thread_ = std::thread([this, job] {
    try {
      run(*job);
    } catch (const std::exception& error) {
      error_ = error.what();
    }
  });
}

void CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  if (!error_.empty()) throw std::runtime_error(std::exchange(error_, ""));
}

void CheckpointWriter::run(const Job& job) const {
  try {
    write_own_part(job);
    if (rank_ == 0) publish(job);
  } catch (const std::exception& error) {
    std::error_code ignored;
    if (rank_ == 0) {
      fs::remove_all(job.temporary, ignored);
    } else {
      report_failure(job.temporary / manifest_name(rank_), error.what());
    }
    throw std::runtime_error(error.what());
  }
  if (rank_ == 0) remove_old(job);
}

void CheckpointWriter::write_own_part(const Job& job) const {
  std::error_code error;
  fs::create_directories(job.temporary, error);
  if (error) fail(job.temporary, "cannot be made: " + error.message());
  const FileSummary summary = write_safetensors(job.temporary / data_name(rank_), job.tensors);
  json manifest{
      {"size", summary.bytes}, {"xxh64", hex(summary.checksum)}, {"tensors", json::object()}};
  for (const auto& [name, tensor] : job.tensors) {
    const auto place = job.places.find(name);
    const std::vector<int64_t> shape = tensor.sizes().vec();
    const bool whole = place == job.places.end();
    manifest["tensors"][name] = {
        {"dtype", c10::toString(tensor.scalar_type())},
        {"shape", whole ? shape : place->second.global_shape},
        {"start", whole ? std::vector<int64_t>(shape.size(), 0) : place->second.start},
        {"local_shape", shape}};
  }
  write_text(job.temporary / manifest_name(rank_), manifest.dump());
}

// Rank 0: collects the manifests into the index and gives the folder its final name.
void CheckpointWriter::publish(const Job& job) const {
  json index{
      {"format", kFormat},
      {"step", job.step},
      {"files", json::object()},
      {"tensors", json::object()}};
  index["state"] = json::parse(job.state_json);
  const auto deadline = std::chrono::steady_clock::now() + kPeerTimeLimit;
  for (int64_t rank = 0; rank < world_size_; ++rank) {
    const fs::path path = job.temporary / manifest_name(rank);
    while (!fs::exists(path)) {
      if (std::chrono::steady_clock::now() > deadline) {
        fail(
            path,
            "did not appear within 10 minutes; rank " + std::to_string(rank) +
                " has not written its part");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const json manifest = json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
    if (manifest.is_discarded() || manifest.contains("error")) {
      const std::string error =
          manifest.is_discarded() ? "could not write" : manifest["error"].get<std::string>();
      throw std::runtime_error("rank " + std::to_string(rank) + ": " + error);
    }
    index["files"][data_name(rank)] = {
        {"size", manifest.at("size")}, {"xxh64", manifest.at("xxh64")}};
    for (const auto& [name, tensor] : manifest.at("tensors").items()) {
      json& entry = index["tensors"][name];
      entry["dtype"] = tensor.at("dtype");
      entry["shape"] = tensor.at("shape");
      entry["pieces"].push_back(
          {{"file", data_name(rank)},
           {"start", tensor.at("start")},
           {"shape", tensor.at("local_shape")}});
    }
  }
  const std::string text = index.dump();
  write_text(job.temporary / kIndexChecksumName, hex(XXH64(text.data(), text.size(), 0)));
  write_text(job.temporary / kIndexName, text);
  for (int64_t rank = 0; rank < world_size_; ++rank)
    fs::remove(job.temporary / manifest_name(rank));
  sync_folder(job.temporary);
  const fs::path old = job.target.string() + ".old";
  if (fs::exists(job.target)) fs::rename(job.target, old);  // a run that repeats its last step
  fs::rename(job.temporary, job.target);
  sync_folder(root_);
  fs::remove_all(old);
}

// Later steps than this one's are of a run that was given up (its last checkpoint was damaged, or
// the user went back); they do not push out the new ones.
void CheckpointWriter::remove_old(const Job& job) const {
  int64_t kept = 0;
  for (const fs::path& folder : list_checkpoints(root_)) {
    const bool later = folder.filename() > job.target.filename();
    if (later || ++kept <= std::max<int64_t>(keep_last_, 1)) continue;
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
}

CheckpointReader::CheckpointReader(std::string folder, bool verify) : folder_(std::move(folder)) {
  if (!fs::is_directory(folder_)) fail(folder_, "is not a checkpoint folder");
  try {
    const json index = read_index(folder_);
    if (verify) {
      for (const auto& [name, expected] : index.at("files").items())
        verify_file(fs::path(folder_) / name, expected);
    }
    for (const auto& [name, tensor] : index.at("tensors").items()) {
      Entry entry{tensor.at("shape").get<std::vector<int64_t>>(), {}};
      for (const json& piece : tensor.at("pieces")) {
        entry.pieces.push_back(
            {piece.at("file").get<std::string>(),
             piece.at("start").get<std::vector<int64_t>>(),
             piece.at("shape").get<std::vector<int64_t>>()});
      }
      entries_.emplace(name, std::move(entry));
    }
    state_json_ = index.at("state").dump();
  } catch (const json::exception& error) {
    fail(fs::path(folder_) / kIndexName, std::string("is damaged: ") + error.what());
  }
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafetensorsFile& CheckpointReader::file(const std::string& name) const {
  auto& slot = files_[name];
  if (!slot) slot = std::make_unique<SafetensorsFile>((fs::path(folder_) / name).string());
  return *slot;
}

const CheckpointReader::Entry& CheckpointReader::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(folder_, "holds no tensor " + name);
  return found->second;
}

at::Tensor CheckpointReader::read(const std::string& name) const {
  const Entry& found = entry(name);
  if (found.pieces.size() == 1 && found.pieces[0].shape == found.shape) {
    return file(found.pieces[0].file).read(name);
  }
  at::Tensor whole;
  int64_t missing = c10::multiply_integers(found.shape);
  for (const Piece& piece : found.pieces) {
    const at::Tensor part = file(piece.file).read(name);
    if (part.sizes() != at::IntArrayRef(piece.shape)) {
      fail(fs::path(folder_) / piece.file, name + " has another shape than the index says");
    }
    missing -= part.numel();
    if (!whole.defined()) whole = at::empty(found.shape, part.options());
    at::Tensor target = whole;
    for (size_t dim = 0; dim < piece.start.size(); ++dim) {
      target = target.narrow(static_cast<int64_t>(dim), piece.start[dim], piece.shape[dim]);
    }
    target.copy_(part);
  }
  if (missing > 0) fail(folder_, "lacks " + std::to_string(missing) + " elements of " + name);
  return whole;
}

at::Tensor CheckpointReader::read_rows(
    const std::string& name, int64_t start, int64_t length) const {
  const Entry& found = entry(name);
  if (found.pieces.size() == 1 && found.pieces[0].shape == found.shape) {
    return file(found.pieces[0].file).read_rows(name, start, length);
  }
  return read(name).narrow(0, start, length).clone();
}

std::pair<std::string, std::vector<std::string>> find_checkpoint(const std::string& root) {
  std::vector<std::string> rejected;
  for (const fs::path& folder : list_checkpoints(root)) {
    try {
      CheckpointReader verified(folder.string());
      return {folder.string(), rejected};
    } catch (const std::exception& error) {
      rejected.emplace_back(error.what());
    }
  }
  return {"", rejected};
}

}  // namespace mindspeed::train
