// SPDX-License-Identifier: Apache-2.0
// Cleaning and deduplication for Python.
#include "bindings/data_cleaning.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "data/cleaning_filter.h"
#include "data/dedup/min_hash.h"
#include "data/dedup/shingles.h"
#include "data/dedup_filter.h"
#include "data/nfc.h"
#include "data/substring_filter.h"

namespace py = pybind11;
namespace data = mindspeed::data;

namespace mindspeed::bindings {
namespace {

py::dict to_dict(const data::DocumentDedupCounts& counts) {
  py::dict dict;
  dict["documents"] = counts.documents;
  dict["bytes"] = counts.bytes;
  dict["exact_documents"] = counts.exact_documents;
  dict["exact_bytes"] = counts.exact_bytes;
  dict["near_documents"] = counts.near_documents;
  dict["near_bytes"] = counts.near_bytes;
  dict["compared_pairs"] = counts.compared_pairs;
  dict["clusters"] = counts.clusters;
  dict["largest_cluster"] = counts.largest_cluster;
  return dict;
}

py::dict to_dict(const data::SubstringDedupCounts& counts) {
  py::dict dict;
  dict["documents"] = counts.documents;
  dict["bytes"] = counts.bytes;
  dict["changed_documents"] = counts.changed_documents;
  dict["removed_bytes"] = counts.removed_bytes;
  return dict;
}

// Decides without the GIL.
template <typename Filter>
py::dict decide(Filter& filter) {
  decltype(filter.decide()) counts;
  {
    const py::gil_scoped_release release;
    counts = filter.decide();
  }
  return to_dict(counts);
}

// (why it is dropped, or ""; the text as rewritten)
std::pair<std::string, py::bytes> apply(
    data::DocumentFilter& filter, uint32_t file, uint64_t offset, std::string text) {
  std::string reason;
  {
    const py::gil_scoped_release release;
    reason = filter.apply(file, offset, text);
  }
  return {reason, py::bytes(text)};
}

// As apply, for documents at offsets 0, 1, 2 ... of file 0, without handing texts back.
std::vector<std::string> apply_batch(
    data::DocumentFilter& filter, const std::vector<std::string>& texts) {
  std::vector<std::string> reasons;
  std::string copy;
  for (size_t i = 0; i < texts.size(); ++i) {
    copy = texts[i];
    reasons.push_back(filter.apply(0, i, copy));
  }
  return reasons;
}

py::array_t<uint32_t> min_hash(const std::string& text) {
  std::vector<uint32_t> shingles;
  data::hash_shingles(text, shingles);
  const data::Signature signature = data::min_hash(shingles);
  return py::array_t<uint32_t>(py::ssize_t(signature.size()), signature.data());
}

}  // namespace

void bind_cleaning(py::module_& m) {
  m.def(
      "normalise_nfc",
      [](std::string text) {
        data::normalise_nfc(text);
        return py::bytes(text);
      },
      py::arg("text"));
  m.def("min_hash", &min_hash, py::arg("text"));

  py::class_<data::DocumentFilter, std::shared_ptr<data::DocumentFilter>>(m, "DocumentFilter")
      .def("apply", &apply, py::arg("file"), py::arg("offset"), py::arg("text"))
      .def("apply_batch", &apply_batch, py::arg("texts"), py::call_guard<py::gil_scoped_release>());

  py::class_<data::CleaningOptions>(m, "CleaningOptions")
      .def(py::init<>())
      .def_readwrite("nfc", &data::CleaningOptions::nfc)
      .def_readwrite("min_characters", &data::CleaningOptions::min_characters)
      .def_readwrite("max_characters", &data::CleaningOptions::max_characters)
      .def_readwrite("min_mean_word_length", &data::CleaningOptions::min_mean_word_length)
      .def_readwrite("max_mean_word_length", &data::CleaningOptions::max_mean_word_length)
      .def_readwrite("min_letter_share", &data::CleaningOptions::min_letter_share)
      .def_readwrite("max_repeated_line_share", &data::CleaningOptions::max_repeated_line_share);
  py::class_<data::CleaningFilter, data::DocumentFilter, std::shared_ptr<data::CleaningFilter>>(
      m, "CleaningFilter")
      .def(py::init<const data::CleaningOptions&>(), py::arg("options"))
      .def("counts", [](const data::CleaningFilter& self) {
        py::dict counts;
        for (const auto& [name, count] : self.counts()) counts[py::str(name)] = count;
        return counts;
      });
  py::class_<data::DedupFilter, data::DocumentFilter, std::shared_ptr<data::DedupFilter>>(
      m, "DedupFilter")
      .def(
          py::init([](const std::filesystem::path& scratch_folder,
                      bool near,
                      double near_threshold,
                      size_t memory_bytes,
                      int threads) {
            return std::make_shared<data::DedupFilter>(data::DocumentDedupOptions{
                near, near_threshold, memory_bytes, threads, scratch_folder});
          }),
          py::arg("scratch_folder"),
          py::arg("near") = false,
          py::arg("near_threshold") = 0.8,
          py::arg("memory_bytes") = size_t(256) << 20,
          py::arg("threads") = 1)
      .def("decide", &decide<data::DedupFilter>);
  py::class_<data::SubstringFilter, data::DocumentFilter, std::shared_ptr<data::SubstringFilter>>(
      m, "SubstringFilter")
      .def(
          py::init([](const std::filesystem::path& scratch_folder,
                      uint32_t min_bytes,
                      size_t memory_bytes,
                      int threads) {
            return std::make_shared<data::SubstringFilter>(
                data::SubstringDedupOptions{min_bytes, memory_bytes, threads, scratch_folder});
          }),
          py::arg("scratch_folder"),
          py::arg("min_bytes") = 200,
          py::arg("memory_bytes") = size_t(256) << 20,
          py::arg("threads") = 1)
      .def("decide", &decide<data::SubstringFilter>);
}

}  // namespace mindspeed::bindings
