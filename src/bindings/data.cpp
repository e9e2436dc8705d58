// SPDX-License-Identifier: Apache-2.0
// mindspeed_llm.data._data: the data room for Python. numpy arrays in and out, no torch. Long calls
// release the GIL; errors arrive as mindspeed_llm.data.DataError.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <mutex>

#include "bindings/data_cleaning.h"
#include "data/data.h"
#include "data/error.h"

namespace py = pybind11;
namespace data = mindspeed::data;

namespace {

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

// The UTF-8 of a str, or the bytes themselves; alive as long as `object` and this. Lone surrogates
// of a str become U+FFFD.
class Text {
 public:
  explicit Text(py::handle object) {
    if (PyBytes_Check(object.ptr())) {
      char* bytes;
      Py_ssize_t size;
      PyBytes_AsStringAndSize(object.ptr(), &bytes, &size);
      view_ = {bytes, size_t(size)};
      return;
    }
    if (!PyUnicode_Check(object.ptr())) throw py::type_error("text must be str or bytes");
    Py_ssize_t size;
    const char* utf8 = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (!utf8) {
      PyErr_Clear();
      repaired_ = object.attr("encode")("utf-16-le", "surrogatepass")
                      .attr("decode")("utf-16-le", "replace");
      utf8 = PyUnicode_AsUTF8AndSize(repaired_.ptr(), &size);
      if (!utf8) throw py::error_already_set();
    }
    view_ = {utf8, size_t(size)};
  }
  std::string_view view() const { return view_; }

 private:
  std::string_view view_;
  py::object repaired_;
};

// A tokenizer with one encoder (its word cache stays warm between calls).
class PythonTokenizer {
 public:
  explicit PythonTokenizer(std::shared_ptr<const data::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)), encoder_(tokenizer_) {}

  const std::shared_ptr<const data::Tokenizer>& shared() const { return tokenizer_; }

  std::vector<uint32_t> encode(py::object object, bool parse_special) {
    const Text text(object);
    std::vector<uint32_t> ids;
    const py::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    encode_into(text.view(), parse_special, ids);
    return ids;
  }

  // All ids in one array, and where each text's begin: [n + 1].
  std::pair<Array<uint32_t>, Array<int64_t>> encode_batch(
      py::sequence objects, bool parse_special) {
    std::vector<Text> texts;
    for (const py::handle object : objects) texts.emplace_back(object);
    std::vector<uint32_t> ids;
    std::vector<int64_t> starts{0};
    {
      const py::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      for (const Text& text : texts) {
        encode_into(text.view(), parse_special, ids);
        starts.push_back(int64_t(ids.size()));
      }
    }
    return {Array<uint32_t>(ids.size(), ids.data()), Array<int64_t>(starts.size(), starts.data())};
  }

  py::bytes decode(const Array<int64_t>& ids, bool skip_special_tokens) const {
    std::vector<uint32_t> narrow;
    for (py::ssize_t i = 0; i < ids.size(); ++i) {
      const int64_t id = ids.data()[i];
      narrow.push_back(id < 0 || id > UINT32_MAX ? UINT32_MAX : uint32_t(id));
    }
    return tokenizer_->decode(narrow.data(), narrow.size(), skip_special_tokens);
  }

 private:
  void encode_into(std::string_view text, bool parse_special, std::vector<uint32_t>& ids) {
    if (parse_special) {
      encoder_.encode_with_added_tokens(text, ids);
    } else {
      encoder_.encode(text, ids);
    }
  }

  std::shared_ptr<const data::Tokenizer> tokenizer_;
  data::Encoder encoder_;
  std::mutex mutex_;
};

py::dict to_dict(const data::Progress& progress) {
  py::dict dict;
  dict["input_bytes"] = progress.input_bytes;
  dict["bytes_read"] = progress.bytes_read;
  dict["documents"] = progress.documents;
  dict["tokens"] = progress.tokens;
  dict["text_bytes"] = progress.text_bytes;
  dict["empty"] = progress.empty;
  dict["rejected"] = progress.rejected;
  dict["replaced_surrogates"] = progress.replaced_surrogates;
  dict["dropped_reasons"] = progress.dropped_reasons;
  return dict;
}

data::InputOptions input_options(
    std::vector<std::filesystem::path> paths,
    std::vector<std::string> keys,
    int workers,
    const std::string& text_unit,
    uint64_t max_record_bytes,
    bool reject_is_fatal,
    py::object on_progress,
    std::vector<std::shared_ptr<data::DocumentFilter>> filters) {
  data::InputOptions options;
  options.paths = std::move(paths);
  options.keys = std::move(keys);
  options.workers = workers;
  options.reject_is_fatal = reject_is_fatal;
  options.filters = std::move(filters);
  options.reader.max_record_bytes = max_record_bytes;
  options.reader.text_unit = text_unit == "line"        ? data::TextUnit::kLine
                             : text_unit == "paragraph" ? data::TextUnit::kParagraph
                                                        : data::TextUnit::kFile;
  if (!on_progress.is_none()) {
    // Held by reference: the caller's frame outlives the work, and a copy would touch counts
    // without the GIL.
    options.on_progress = [callback = py::handle(on_progress)](const data::Progress& progress) {
      const py::gil_scoped_acquire acquire;
      callback(to_dict(progress));
    };
  }
  return options;
}

// input_ids, labels [B, S] int64, positions int32 [B*S], cu_seqlens int32 [pieces + 1]
py::dict batch(const data::PackedDataset& dataset, const std::vector<uint64_t>& samples) {
  const auto rows = py::ssize_t(samples.size()), seq_len = py::ssize_t(dataset.seq_len());
  if (rows * seq_len > INT32_MAX) {
    throw data::Error("batch: samples times sequence length must be below 2^31 tokens");
  }
  Array<int64_t> input_ids({rows, seq_len}), labels({rows, seq_len});
  Array<int32_t> positions(rows * seq_len);
  int64_t* const input_ids_data = input_ids.mutable_data();
  int64_t* const labels_data = labels.mutable_data();
  int32_t* const positions_data = positions.mutable_data();
  std::vector<int32_t> cu_seqlens{0};
  {
    const py::gil_scoped_release release;
    for (py::ssize_t row = 0; row < rows; ++row) {
      const py::ssize_t at = row * seq_len;
      dataset.fill(
          samples[row], input_ids_data + at, labels_data + at, positions_data + at, cu_seqlens);
    }
    for (size_t i = 1; i < cu_seqlens.size(); ++i) cu_seqlens[i] += cu_seqlens[i - 1];
  }
  py::dict dict;
  dict["input_ids"] = input_ids;
  dict["labels"] = labels;
  dict["positions"] = positions;
  dict["cu_seqlens"] = Array<int32_t>(cu_seqlens.size(), cu_seqlens.data());
  return dict;
}

std::shared_ptr<PythonTokenizer> train_tokenizer(
    const data::InputOptions& options,
    size_t vocab_size,
    const std::vector<std::string>& special_tokens) {
  const data::WordCounts words = data::count_words(options, data::PreTokenizer::kGpt2);
  return std::make_shared<PythonTokenizer>(
      std::make_shared<const data::Tokenizer>(data::train_bpe(words, vocab_size, special_tokens)));
}

}  // namespace

PYBIND11_MODULE(_data, m) {
  m.doc() = "Tokenizer, token files and packed samples (C++, no torch).";
  py::register_exception<data::Error>(
      m, "DataError", py::module_::import("mindspeed_llm.errors").attr("UserError"));

  mindspeed::bindings::bind_cleaning(m);

  py::class_<PythonTokenizer, std::shared_ptr<PythonTokenizer>>(m, "Tokenizer")
      .def_static(
          "from_file",
          [](const std::filesystem::path& path) {
            return std::make_shared<PythonTokenizer>(data::Tokenizer::from_file(path));
          },
          py::arg("path"))
      .def(
          "save",
          [](const PythonTokenizer& self, const std::filesystem::path& path) {
            data::write_tokenizer_json(self.shared()->vocabulary(), path);
          },
          py::arg("path"))
      .def("encode", &PythonTokenizer::encode, py::arg("text"), py::arg("parse_special"))
      .def(
          "encode_batch",
          &PythonTokenizer::encode_batch,
          py::arg("texts"),
          py::arg("parse_special"))
      .def("decode", &PythonTokenizer::decode, py::arg("ids"), py::arg("skip_special_tokens"))
      .def(
          "id_of",
          [](const PythonTokenizer& self, const std::string& token) {
            return self.shared()->id_of(token);
          })
      .def_property_readonly(
          "vocab_size", [](const PythonTokenizer& self) { return self.shared()->vocab_size(); })
      .def_property_readonly(
          "bos_id", [](const PythonTokenizer& self) { return self.shared()->begin_of_text(); })
      .def_property_readonly(
          "eos_id", [](const PythonTokenizer& self) { return self.shared()->end_of_text(); });

  py::class_<data::InputOptions>(m, "InputOptions")
      .def(
          py::init(&input_options),
          py::arg("paths"),
          py::arg("keys"),
          py::arg("workers"),
          py::arg("text_unit"),
          py::arg("max_record_bytes"),
          py::arg("reject_is_fatal"),
          py::arg("on_progress"),
          py::arg("filters") = std::vector<std::shared_ptr<data::DocumentFilter>>(),
          py::keep_alive<1, 8>());
  m.def(
      "scan",
      [](const data::InputOptions& input) {
        data::Progress progress;
        {
          const py::gil_scoped_release release;
          progress = data::scan(input);
        }
        return to_dict(progress);
      },
      py::arg("input"));

  m.def(
      "preprocess",
      [](const data::InputOptions& input,
         const std::string& output_prefix,
         const PythonTokenizer& tokenizer,
         bool append_eod) {
        data::Progress progress;
        {
          const py::gil_scoped_release release;
          progress = data::preprocess({input, output_prefix, append_eod}, tokenizer.shared());
        }
        return to_dict(progress);
      },
      py::arg("input"),
      py::arg("output_prefix"),
      py::arg("tokenizer"),
      py::arg("append_eod"));
  m.def(
      "train_tokenizer",
      &train_tokenizer,
      py::arg("input"),
      py::arg("vocab_size"),
      py::arg("special_tokens"),
      py::call_guard<py::gil_scoped_release>());

  py::class_<data::IndexedDataset>(m, "IndexedDataset")
      .def(py::init<std::filesystem::path>(), py::arg("prefix"))
      .def_property_readonly("prefix", &data::IndexedDataset::prefix)
      .def_property_readonly("num_tokens", &data::IndexedDataset::num_tokens)
      .def_property_readonly("num_documents", &data::IndexedDataset::num_documents)
      .def_property_readonly("num_sequences", &data::IndexedDataset::num_sequences)
      .def_property_readonly("largest_id", &data::IndexedDataset::largest_id)
      .def(
          "document_range",
          [](const data::IndexedDataset& self, uint64_t document) {
            if (document >= self.num_documents()) throw py::index_error();
            return std::pair(self.document_start(document), self.document_start(document + 1));
          },
          py::arg("document"))
      .def(
          "read",
          [](const data::IndexedDataset& self, uint64_t start, uint64_t count) {
            if (count > self.num_tokens())
              count = self.num_tokens() + 1;  // refused below, without the memory
            Array<int64_t> tokens{py::ssize_t(count)};
            self.read(start, count, tokens.mutable_data());
            return tokens;
          },
          py::arg("start"),
          py::arg("count"));

  py::class_<data::PackedDataset>(m, "PackedDataset")
      .def(
          py::init([](const std::vector<std::pair<std::string, double>>& corpora,
                      uint64_t seq_len,
                      uint64_t seed,
                      bool cross_documents) {
            std::vector<data::Corpus> list;
            for (const auto& [prefix, weight] : corpora) list.push_back({prefix, weight});
            return std::make_unique<data::PackedDataset>(list, seq_len, seed, cross_documents);
          }),
          py::arg("corpora"),
          py::arg("seq_len"),
          py::arg("seed"),
          py::arg("cross_documents"))
      .def("batch", &batch, py::arg("samples"))
      .def(
          "window",
          [](const data::PackedDataset& self, uint64_t sample) {
            const auto window = self.window(sample);
            return std::pair(window.corpus, window.start);
          },
          py::arg("sample"))
      .def("samples_per_epoch", &data::PackedDataset::samples_per_epoch, py::arg("corpus"))
      .def_property_readonly("num_tokens", &data::PackedDataset::num_tokens)
      .def_property_readonly("largest_id", &data::PackedDataset::largest_id);
}
