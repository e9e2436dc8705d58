// SPDX-License-Identifier: Apache-2.0
// Reads input files (.jsonl, .json, .txt; each also .gz) record by record in chunks of about a
// megabyte, with bounded memory. One reader serves all worker threads: whoever comes next takes the
// next chunk.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace mindspeed::data {

// What one document of a plain-text file is.
enum class TextUnit { kFile, kLine, kParagraph };

struct ReaderOptions {
  TextUnit text_unit = TextUnit::kFile;
  uint64_t max_record_bytes = uint64_t(128) << 20;
  uint64_t chunk_bytes = uint64_t(1) << 20;
};

struct Record {
  uint32_t file;            // index into the reader's paths
  uint64_t line;            // where it begins, from 1
  size_t offset, size;      // in Chunk::bytes; at least kPadding readable bytes follow
  bool is_json;             // else plain text
  bool too_long = false;    // the record was cut after its first bytes
  bool unfinished = false;  // a JSON array that ends before its bracket
};

struct Chunk {
  static constexpr size_t kPadding = 64;
  uint64_t number = 0;
  std::string bytes;
  std::vector<Record> records;
  std::string_view text(const Record& record) const {
    return {bytes.data() + record.offset, record.size};
  }
};

class RecordReader {
 public:
  // `paths`: files, or folders whose readable files are taken in order of name. Throws Error for a
  // missing path, an unknown kind of file, or an empty list.
  RecordReader(const std::vector<std::filesystem::path>& paths, ReaderOptions options);
  ~RecordReader();

  // False at the end of the last file. Throws Error if a file cannot be read or its gzip data is
  // broken.
  bool next(Chunk& chunk);

  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  uint64_t input_bytes() const { return input_bytes_; }  // all files as they lie on disk
  uint64_t bytes_read() const;                           // of these, for progress

 private:
  class Stream;
  bool open_next();
  void read_lines(Chunk& chunk);
  void read_array(Chunk& chunk);
  void read_paragraph(Chunk& chunk);
  void take(Chunk& chunk, uint64_t line, bool is_json, bool unfinished = false);

  std::vector<std::filesystem::path> paths_;
  ReaderOptions options_;
  uint64_t input_bytes_ = 0, bytes_of_finished_files_ = 0;
  uint64_t num_chunks_ = 0;
  size_t next_file_ = 0;
  std::unique_ptr<Stream> stream_;
  enum class Kind { kJsonLines, kJsonArray, kTextLines, kTextParagraphs, kTextFile } kind_{};
  std::string record_;     // the one being read
  bool too_long_ = false;  // and it went past max_record_bytes
};

}  // namespace mindspeed::data
