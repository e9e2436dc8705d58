// SPDX-License-Identifier: Apache-2.0
// The workers' loop and its two uses.
#include "data/preprocess.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "data/document.h"
#include "data/error.h"
#include "data/indexed_dataset.h"
#include "data/json.h"
#include "data/output_file.h"
#include "data/utf8.h"

namespace mindspeed::data {
namespace {

struct Rejection {
  uint32_t file;
  uint64_t line;
  std::string reason;
  std::string beginning;  // of the record, made valid UTF-8
};

// What a worker makes of a chunk.
class ChunkWork {
 public:
  virtual ~ChunkWork() = default;
  virtual void begin() = 0;
  virtual void add(const std::vector<std::string_view>& texts) = 0;  // one document
  virtual void commit(Progress& progress) = 0;  // called in the order of the chunks, one at a time
};

class Workers {
 public:
  explicit Workers(const InputOptions& options)
      : options_(options), reader_(options.paths, options.reader) {
    if (options.workers < 1) {
      throw Error("workers must be at least 1, got " + std::to_string(options.workers));
    }
    progress_.input_bytes = reader_.input_bytes();
  }

  // Every worker thread gets its own work from `make_work`. Rejections are passed to `on_rejection`
  // in order. Progress is reported from the calling thread, which in Python is the one that signals
  // reach.
  void run(
      const std::function<std::unique_ptr<ChunkWork>()>& make_work,
      const std::function<void(const Rejection&)>& on_rejection) {
    std::vector<std::thread> threads;
    threads.reserve(size_t(options_.workers));
    running_ = options_.workers;
    for (int i = 0; i < options_.workers; ++i) {
      threads.emplace_back([&] {
        try {
          const auto work = make_work();
          loop(*work, on_rejection);
        } catch (...) {
          fail();
        }
        const std::lock_guard lock(commit_mutex_);
        --running_;
        finished_.notify_one();
      });
    }
    try {
      while (!wait_for_the_end()) report();
    } catch (...) {
      fail();
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    report();
  }

  Progress& progress() { return progress_; }
  const std::vector<std::filesystem::path>& paths() const { return reader_.paths(); }

  void refuse_empty() const {
    if (progress_.documents > 0) return;
    throw Error(
        paths()[0].string() + (paths().size() > 1 ? " and others" : "") +
        ": the corpus must have at least one document with text, got " +
        std::to_string(progress_.empty) + " empty ones, " + std::to_string(num_dropped()) +
        " dropped ones and " + std::to_string(progress_.rejected) + " bad lines" +
        (first_rejection_.empty() ? "" : " (" + first_rejection_ + ")"));
  }

 private:
  uint64_t num_dropped() const {
    uint64_t sum = 0;
    for (const auto& [reason, count] : progress_.dropped_reasons) sum += count;
    return sum;
  }

  void loop(ChunkWork& work, const std::function<void(const Rejection&)>& on_rejection) {
    DocumentParser parser(options_.keys);
    Chunk chunk;
    std::vector<Rejection> rejections;
    std::vector<std::string_view> texts;
    std::vector<std::string> rewritten(options_.keys.size());
    for (;;) {
      uint64_t bytes_read;
      {
        const std::lock_guard lock(read_mutex_);
        if (stopped() || !reader_.next(chunk)) return;
        bytes_read = reader_.bytes_read();
      }
      Progress of_chunk;
      rejections.clear();
      work.begin();
      const uint64_t surrogates = parser.replaced_surrogates();
      for (const Record& record : chunk.records) {
        std::string reason = parser.parse(chunk, record);
        if (!reason.empty()) {
          rejections.push_back(
              {record.file,
               record.line,
               std::move(reason),
               replace_invalid_utf8(chunk.text(record).substr(0, 2000))});
          continue;
        }
        texts = parser.texts();
        bool empty = true;
        for (const std::string_view text : texts) empty &= text.empty();
        if (!empty) {
          const uint64_t place = (chunk.number << 32) | uint64_t(&record - chunk.records.data());
          reason = apply_filters(record.file, place, texts, rewritten);
          if (!reason.empty()) {
            ++of_chunk.dropped_reasons[reason];
            continue;
          }
          work.add(texts);
        }
        for (const std::string_view text : texts) of_chunk.text_bytes += text.size();
        ++(empty ? of_chunk.empty : of_chunk.documents);
      }
      of_chunk.replaced_surrogates = parser.replaced_surrogates() - surrogates;

      std::unique_lock lock(commit_mutex_);
      turn_.wait(lock, [&] { return failure_ || next_commit_ == chunk.number; });
      if (failure_) return;
      for (const Rejection& rejection : rejections) {
        ++progress_.rejected;
        if (options_.reject_is_fatal) {
          throw Error(
              paths()[rejection.file].string() + ":" + std::to_string(rejection.line) + ": " +
              rejection.reason +
              "; mend the line, or let bad lines be skipped (--on-bad-line skip)");
        }
        if (first_rejection_.empty()) {
          first_rejection_ = paths()[rejection.file].string() + ":" +
                             std::to_string(rejection.line) + ": " + rejection.reason;
        }
        on_rejection(rejection);
      }
      progress_.bytes_read = bytes_read;
      progress_.documents += of_chunk.documents;
      progress_.text_bytes += of_chunk.text_bytes;
      progress_.empty += of_chunk.empty;
      for (const auto& [reason, count] : of_chunk.dropped_reasons) {
        progress_.dropped_reasons[reason] += count;
      }
      progress_.replaced_surrogates += of_chunk.replaced_surrogates;
      work.commit(progress_);
      ++next_commit_;
      turn_.notify_all();
    }
  }

  // Why a filter drops the document; texts that filters rewrote lie in `rewritten`.
  std::string apply_filters(
      uint32_t file,
      uint64_t place,
      std::vector<std::string_view>& texts,
      std::vector<std::string>& rewritten) const {
    if (options_.filters.empty()) return {};
    for (size_t i = 0; i < texts.size(); ++i) {
      rewritten[i] = texts[i];
      for (const auto& filter : options_.filters) {
        std::string reason = filter->apply(file, place, rewritten[i]);
        if (!reason.empty()) return reason;
      }
      texts[i] = rewritten[i];
    }
    return {};
  }

  bool stopped() {
    const std::lock_guard lock(commit_mutex_);
    return failure_ != nullptr;
  }

  // Keeps the current exception, if it is the first, and lets everyone stop.
  void fail() {
    const std::lock_guard lock(commit_mutex_);
    if (!failure_) failure_ = std::current_exception();
    turn_.notify_all();
  }

  bool wait_for_the_end() {
    std::unique_lock lock(commit_mutex_);
    return finished_.wait_for(lock, std::chrono::milliseconds(100), [&] { return running_ == 0; });
  }

  void report() {
    if (!options_.on_progress) return;
    Progress now;
    {
      const std::lock_guard lock(commit_mutex_);
      now = progress_;
    }
    options_.on_progress(now);
  }

  const InputOptions& options_;
  RecordReader reader_;
  Progress progress_;
  std::mutex read_mutex_,
      commit_mutex_;  // the commit mutex may be taken while reading, never the reverse
  std::condition_variable turn_, finished_;
  int running_ = 0;
  uint64_t next_commit_ = 0;
  std::string first_rejection_;
  std::exception_ptr failure_;
};

class EncodeWork : public ChunkWork {
 public:
  EncodeWork(
      std::shared_ptr<const Tokenizer> tokenizer,
      bool append_end,
      std::vector<std::unique_ptr<IndexedDatasetWriter>>& writers)
      : encoder_(std::move(tokenizer)), append_end_(append_end), writers_(writers) {}

  void begin() override {
    ids_.clear();
    ends_.clear();
  }

  void add(const std::vector<std::string_view>& texts) override {
    for (const std::string_view text : texts) {
      encoder_.encode(text, ids_);
      if (append_end_) ids_.push_back(*encoder_.tokenizer().end_of_text());
      ends_.push_back(ids_.size());
    }
  }

  void commit(Progress& progress) override {
    size_t start = 0;
    for (size_t i = 0; i < ends_.size(); ++i) {
      writers_[i % writers_.size()]->add_document({ids_.data() + start, ends_[i] - start});
      start = ends_[i];
    }
    progress.tokens += ids_.size();
  }

 private:
  Encoder encoder_;
  bool append_end_;
  std::vector<std::unique_ptr<IndexedDatasetWriter>>& writers_;
  std::vector<uint32_t> ids_;
  std::vector<size_t> ends_;
};

class NoWork : public ChunkWork {
 public:
  void begin() override {}
  void add(const std::vector<std::string_view>&) override {}
  void commit(Progress&) override {}
};

class CountWork : public ChunkWork {
 public:
  CountWork(PreTokenizer pre_tokenizer, WordCounts& total, std::mutex& mutex)
      : counts_(pre_tokenizer), total_(total), mutex_(mutex) {}
  ~CountWork() override {
    const std::lock_guard lock(mutex_);
    total_.merge(counts_);
  }
  void begin() override {}
  void add(const std::vector<std::string_view>& texts) override {
    for (const std::string_view text : texts) counts_.add(text);
  }
  void commit(Progress&) override {}

 private:
  WordCounts counts_;
  WordCounts& total_;
  std::mutex& mutex_;
};

}  // namespace

Progress preprocess(const PreprocessOptions& options, std::shared_ptr<const Tokenizer> tokenizer) {
  if (options.input.keys.empty()) throw Error("keys: at least one key must be given");
  if (options.append_end_of_document && !tokenizer->end_of_text()) {
    throw Error(
        "tokenizer: must have an end-of-text token such as <|endoftext|>, which marks where a "
        "document ends; "
        "add one, or preprocess with --no-append-eod");
  }
  Workers workers(options.input);
  std::vector<std::unique_ptr<IndexedDatasetWriter>> writers;
  for (const std::string& key : options.input.keys) {
    writers.push_back(std::make_unique<IndexedDatasetWriter>(
        options.output_prefix + "_" + key + "_document", token_type_for(tokenizer->vocab_size())));
  }
  OutputFile rejected(options.output_prefix + "_rejected.jsonl");
  workers.run(
      [&] {
        return std::make_unique<EncodeWork>(tokenizer, options.append_end_of_document, writers);
      },
      [&](const Rejection& rejection) {
        rejected.write(
            "{\"file\": " +
            json_quote(replace_invalid_utf8(workers.paths()[rejection.file].string())) +
            ", \"line\": " + std::to_string(rejection.line) +
            ", \"reason\": " + json_quote(rejection.reason) +
            ", \"text\": " + json_quote(rejection.beginning) + "}\n");
      });
  workers.refuse_empty();
  if (workers.progress().rejected > 0) {
    rejected.publish();
  } else {
    std::filesystem::remove(rejected.path());
  }
  const int64_t end =
      options.append_end_of_document ? int64_t(*tokenizer->end_of_text()) : int64_t(-1);
  for (const auto& writer : writers) writer->publish(tokenizer->vocab_size(), end);
  return workers.progress();
}

Progress scan(const InputOptions& options) {
  Workers workers(options);
  workers.run([] { return std::make_unique<NoWork>(); }, [](const Rejection&) {});
  return workers.progress();
}

WordCounts count_words(const InputOptions& options, PreTokenizer pre_tokenizer) {
  Workers workers(options);
  WordCounts total(pre_tokenizer);
  std::mutex mutex;
  workers.run(
      [&] { return std::make_unique<CountWork>(pre_tokenizer, total, mutex); },
      [](const Rejection&) {});
  workers.refuse_empty();
  return total;
}

}  // namespace mindspeed::data
