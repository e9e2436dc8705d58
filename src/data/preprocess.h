// SPDX-License-Identifier: Apache-2.0
// Text to tokens on disk: workers read chunks in turn, parse and encode them at the same time, and
// commit them in the order of reading, so the output does not depend on their number. Also counts
// words for training a vocabulary, the same way.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/bpe_trainer.h"
#include "data/document_filter.h"
#include "data/records.h"
#include "data/tokenizer.h"

namespace mindspeed::data {

struct Progress {
  uint64_t input_bytes = 0, bytes_read = 0;  // of the files as they lie on disk
  uint64_t documents = 0, tokens = 0, text_bytes = 0;
  uint64_t empty = 0;                               // documents without text: skipped
  uint64_t rejected = 0;                            // records that gave no document
  std::map<std::string, uint64_t> dropped_reasons;  // documents that a filter dropped
  uint64_t replaced_surrogates = 0;                 // lone \uD8xx escapes, now U+FFFD
};

struct InputOptions {
  std::vector<std::filesystem::path> paths;
  std::vector<std::string> keys = {"text"};
  ReaderOptions reader;
  int workers = 1;
  bool reject_is_fatal = false;
  std::vector<std::shared_ptr<DocumentFilter>> filters;  // applied one after another
  // Called from the calling thread, every 0.1 s and at the end; what it throws ends the work.
  std::function<void(const Progress&)> on_progress;
};

struct PreprocessOptions {
  InputOptions input;
  std::string output_prefix;  // files are PREFIX_KEY_document.{bin,idx,json}
  bool append_end_of_document = true;
};

// Writes all files or none; rejected records go to PREFIX_rejected.jsonl. Throws Error for bad
// input, for an empty corpus, for a vocabulary without an end-of-text token when one is to be
// appended.
Progress preprocess(const PreprocessOptions& options, std::shared_ptr<const Tokenizer> tokenizer);

// Shows every document to the filters and does nothing else. Throws Error as preprocess does.
Progress scan(const InputOptions& options);

// Counts the words of all documents. Throws Error as preprocess does.
WordCounts count_words(const InputOptions& options, PreTokenizer pre_tokenizer);

}  // namespace mindspeed::data
