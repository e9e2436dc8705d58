// SPDX-License-Identifier: Apache-2.0
// zlib's gzFile reads plain and compressed files alike, members one after another included.
#include "data/records.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "data/error.h"

namespace mindspeed::data {
namespace {

constexpr char kKinds[] = ".jsonl, .json, .ndjson, .txt or .text, each also with .gz";

// ".jsonl" for "a.JSONL.gz"; empty for what is not read.
std::string kind_of(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return char(std::tolower(c));
  });
  std::filesystem::path lower(name);
  if (lower.extension() == ".gz") lower = lower.stem();
  std::string extension = lower.extension().string();
  for (const char* known : {".jsonl", ".json", ".ndjson", ".txt", ".text"}) {
    if (extension == known) return extension;
  }
  return {};
}

}  // namespace

class RecordReader::Stream {
 public:
  Stream(const std::filesystem::path& path, uint32_t number)
      : path_(path), number_(number), file_(gzopen(path.c_str(), "rb")), buffer_(size_t(1) << 18) {
    if (!file_)
      throw Error(path.string() + ": cannot open the input file: " + std::strerror(errno));
    gzbuffer(file_, 1 << 18);
    if (fill() && end_ >= 3 && std::memcmp(buffer_.data(), "\xEF\xBB\xBF", 3) == 0) start_ = 3;
  }
  ~Stream() { gzclose(file_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  uint32_t number() const { return number_; }
  uint64_t line() const { return line_; }
  uint64_t compressed_position() const { return uint64_t(gzoffset(file_)); }
  bool at_end() { return start_ == end_ && !fill(); }

  int peek() { return at_end() ? -1 : uint8_t(buffer_[start_]); }
  int get() {
    const int byte = peek();
    if (byte < 0) return byte;
    ++start_;
    line_ += byte == '\n';
    return byte;
  }

  // Appends to `line` up to and without the next newline, at most `limit` bytes in all; the rest is
  // read and dropped, and then the result is true.
  bool read_line(std::string& line, uint64_t limit) {
    bool dropped = false;
    while (!at_end()) {
      const char* begin = buffer_.data() + start_;
      const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', end_ - start_));
      const size_t length = newline ? size_t(newline - begin) : end_ - start_;
      const size_t room = line.size() < limit ? size_t(limit - line.size()) : 0;
      line.append(begin, std::min(length, room));
      dropped |= length > room;
      start_ += length;
      if (newline) {
        ++start_;
        ++line_;
        break;
      }
    }
    return dropped;
  }

  // Appends everything up to the end of the file, as read_line does with its limit.
  bool read_rest(std::string& text, uint64_t limit) {
    bool dropped = false;
    for (; !at_end(); start_ = end_) {
      const size_t length = end_ - start_;
      const size_t room = text.size() < limit ? size_t(limit - text.size()) : 0;
      text.append(buffer_.data() + start_, std::min(length, room));
      dropped |= length > room;
    }
    return dropped;
  }

 private:
  bool fill() {
    const int count = gzread(file_, buffer_.data(), unsigned(buffer_.size()));
    int code = Z_OK;
    const char* message = gzerror(file_, &code);
    if (count < 0 || (count == 0 && code == Z_BUF_ERROR)) {
      throw Error(
          path_.string() + ": the file must be whole and readable, got " +
          (code == Z_ERRNO       ? std::strerror(errno)
           : code == Z_BUF_ERROR ? "gzip data that ends too early"
                                 : message) +
          " near line " + std::to_string(line_));
    }
    start_ = 0;
    end_ = size_t(count);
    return count > 0;
  }

  std::filesystem::path path_;
  uint32_t number_;
  gzFile file_;
  std::vector<char> buffer_;
  size_t start_ = 0, end_ = 0;
  uint64_t line_ = 1;
};

RecordReader::RecordReader(const std::vector<std::filesystem::path>& paths, ReaderOptions options)
    : options_(options) {
  namespace fs = std::filesystem;
  for (const fs::path& path : paths) {
    if (fs::is_directory(path)) {
      std::vector<fs::path> inside;
      for (const auto& entry : fs::recursive_directory_iterator(path)) {
        if (entry.is_regular_file() && !kind_of(entry.path()).empty())
          inside.push_back(entry.path());
      }
      if (inside.empty())
        throw Error(path.string() + ": the folder must hold files ending in " + kKinds);
      std::sort(inside.begin(), inside.end());
      paths_.insert(paths_.end(), inside.begin(), inside.end());
    } else if (!fs::exists(path)) {
      throw Error(path.string() + ": the input file must exist");
    } else if (kind_of(path).empty()) {
      throw Error(path.string() + ": the input file's name must end in " + kKinds);
    } else {
      paths_.push_back(path);
    }
  }
  if (paths_.empty()) throw Error("input: at least one file must be given");
  for (const fs::path& path : paths_) input_bytes_ += fs::file_size(path);
}

RecordReader::~RecordReader() = default;

uint64_t RecordReader::bytes_read() const {
  return bytes_of_finished_files_ + (stream_ ? stream_->compressed_position() : 0);
}

bool RecordReader::open_next() {
  if (stream_) {
    stream_.reset();
    bytes_of_finished_files_ += std::filesystem::file_size(paths_[next_file_ - 1]);
  }
  if (next_file_ == paths_.size()) return false;
  stream_ = std::make_unique<Stream>(paths_[next_file_], uint32_t(next_file_));
  const std::string kind = kind_of(paths_[next_file_++]);
  if (kind == ".json") {
    while (stream_->peek() >= 0 && std::isspace(stream_->peek())) stream_->get();
    kind_ = stream_->peek() == '[' ? Kind::kJsonArray : Kind::kJsonLines;
    if (kind_ == Kind::kJsonArray) stream_->get();
  } else if (kind == ".jsonl" || kind == ".ndjson") {
    kind_ = Kind::kJsonLines;
  } else {
    kind_ = options_.text_unit == TextUnit::kFile   ? Kind::kTextFile
            : options_.text_unit == TextUnit::kLine ? Kind::kTextLines
                                                    : Kind::kTextParagraphs;
  }
  return true;
}

bool RecordReader::next(Chunk& chunk) {
  chunk.bytes.clear();
  chunk.records.clear();
  while (chunk.bytes.size() < options_.chunk_bytes) {
    const bool finished = !stream_ || (stream_->at_end() && kind_ != Kind::kJsonArray);
    if (finished && !open_next()) break;
    switch (kind_) {
      case Kind::kJsonArray:
        read_array(chunk);
        break;
      case Kind::kTextFile:
        too_long_ = stream_->read_rest(record_, options_.max_record_bytes);
        take(chunk, 1, false);
        break;
      case Kind::kTextParagraphs:
        read_paragraph(chunk);
        break;
      case Kind::kJsonLines:
      case Kind::kTextLines:
        read_lines(chunk);
        break;
    }
  }
  if (chunk.records.empty()) return false;
  chunk.number = num_chunks_++;
  chunk.bytes.resize(chunk.bytes.size() + Chunk::kPadding);
  return true;
}

void RecordReader::take(Chunk& chunk, uint64_t line, bool is_json, bool unfinished) {
  const bool blank = std::all_of(
      record_.begin(), record_.end(), [](unsigned char c) { return std::isspace(c) != 0; });
  if (!blank || too_long_ || unfinished || kind_ == Kind::kTextFile) {
    chunk.records.push_back(
        {stream_->number(),
         line,
         chunk.bytes.size(),
         record_.size(),
         is_json,
         too_long_,
         unfinished});
    chunk.bytes += record_;
  }
  record_.clear();
  too_long_ = false;
}

void RecordReader::read_lines(Chunk& chunk) {
  while (chunk.bytes.size() < options_.chunk_bytes && !stream_->at_end()) {
    const uint64_t line = stream_->line();
    too_long_ = stream_->read_line(record_, options_.max_record_bytes);
    if (kind_ == Kind::kTextLines && !record_.empty() && record_.back() == '\r') record_.pop_back();
    take(chunk, line, kind_ == Kind::kJsonLines);
  }
}

// Lines up to a blank one or the end of the file.
void RecordReader::read_paragraph(Chunk& chunk) {
  uint64_t first_line = stream_->line();
  while (!stream_->at_end()) {
    const size_t size = record_.size();
    too_long_ |= stream_->read_line(record_, options_.max_record_bytes);
    if (record_.find_first_not_of('\r', size) != std::string::npos) {
      record_ += '\n';
      continue;
    }
    record_.resize(size);
    if (size > 0) break;
    first_line = stream_->line();
  }
  if (!record_.empty()) record_.pop_back();
  take(chunk, first_line, false);
}

// One element of the top array: up to a comma or bracket outside strings and inner brackets.
void RecordReader::read_array(Chunk& chunk) {
  while (chunk.bytes.size() < options_.chunk_bytes) {
    while (stream_->peek() >= 0 && std::isspace(stream_->peek())) stream_->get();
    const uint64_t line = stream_->line();
    uint64_t depth = 0;
    bool in_string = false, escaped = false;
    int byte;
    while ((byte = stream_->get()) >= 0) {
      if (in_string) {
        if (escaped) {
          escaped = false;
        } else if (byte == '\\') {
          escaped = true;
        } else if (byte == '"') {
          in_string = false;
        }
      } else if (byte == '"') {
        in_string = true;
      } else if (byte == '{' || byte == '[') {
        ++depth;
      } else if (depth > 0 && (byte == '}' || byte == ']')) {
        --depth;
      } else if (depth == 0 && (byte == ',' || byte == ']')) {
        break;
      }
      if (record_.size() < options_.max_record_bytes) {
        record_ += char(byte);
      } else {
        too_long_ = true;
      }
    }
    take(chunk, line, true, byte < 0);
    if (byte == ',') continue;
    kind_ = Kind::kJsonLines;  // what follows the array is blank, or rejected line by line
    return;
  }
}

}  // namespace mindspeed::data
