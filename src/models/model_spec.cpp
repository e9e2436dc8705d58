// SPDX-License-Identifier: Apache-2.0
// JSON form and checks of ModelSpec. One table of fields a struct serves reading, writing and key
// checking.
#include "models/model_spec.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace mindspeed::models {
namespace {

using nlohmann::json;

// Each calls visit(key, field) for the plain fields of one struct.
void visit_rotary(auto& spec, auto&& visit) {
  visit("theta", spec.theta);
  visit("scaling", spec.scaling);
  visit("factor", spec.factor);
  visit("low_freq_factor", spec.low_freq_factor);
  visit("high_freq_factor", spec.high_freq_factor);
  visit("original_max_position_embeddings", spec.original_max_position_embeddings);
}

void visit_attention(auto& spec, auto&& visit) {
  visit("kind", spec.kind);
  visit("num_heads", spec.num_heads);
  visit("num_key_value_heads", spec.num_key_value_heads);
  visit("head_size", spec.head_size);
  visit("bias", spec.bias);
}

void visit_mlp(auto& spec, auto&& visit) {
  visit("kind", spec.kind);
  visit("activation", spec.activation);
  visit("intermediate_size", spec.intermediate_size);
  visit("bias", spec.bias);
}

void visit_norm(auto& spec, auto&& visit) {
  visit("kind", spec.kind);
  visit("eps", spec.eps);
}

void visit_model(auto& spec, auto&& visit) {
  visit("family", spec.family);
  visit("vocab_size", spec.vocab_size);
  visit("hidden_size", spec.hidden_size);
  visit("num_layers", spec.num_layers);
  visit("max_position_embeddings", spec.max_position_embeddings);
  visit("initializer_range", spec.initializer_range);
  visit("tie_word_embeddings", spec.tie_word_embeddings);
}

// Reads fields from one JSON object and remembers which keys it knew.
struct FieldReader {
  const json& object;
  std::string where;
  std::set<std::string> known;

  template <typename Field>
  void operator()(const char* key, Field& field) {
    known.insert(key);
    auto found = object.find(key);
    if (found == object.end()) return;
    try {
      field = found->template get<Field>();
    } catch (const json::exception&) {
      throw std::invalid_argument(where + key + ": wrong type, got " + found->dump());
    }
  }

  void refuse_unknown(std::initializer_list<const char*> nested = {}) const {
    for (const auto& [key, value] : object.items()) {
      bool is_nested = false;
      for (const char* name : nested) is_nested = is_nested || key == name;
      if (!is_nested && known.count(key) == 0) {
        throw std::invalid_argument(where + key + ": is not a field of the model spec");
      }
    }
  }
};

struct FieldWriter {
  json& object;
  template <typename Field>
  void operator()(const char* key, const Field& field) {
    object[key] = field;
  }
};

void require(bool holds, const std::string& message) {
  if (!holds) throw std::invalid_argument(message);
}

void require_name(
    const std::string& field, const std::string& value, std::initializer_list<const char*> names) {
  std::string list;
  for (const char* name : names) {
    if (value == name) return;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  throw std::invalid_argument(field + " ('" + value + "') must be one of: " + list);
}

void require_positive(const char* field, int64_t value) {
  require(value > 0, std::string(field) + " must be positive, got " + std::to_string(value));
}

}  // namespace

ModelSpec ModelSpec::from_json(const std::string& text) {
  json object;
  try {
    object = json::parse(text);
  } catch (const json::exception& error) {
    throw std::invalid_argument(std::string("model spec: not JSON: ") + error.what());
  }
  require(object.is_object(), "model spec: must be a JSON object");
  ModelSpec spec;
  const json empty = json::object();
  auto nested = [&](const char* key) -> const json& {
    auto found = object.find(key);
    if (found == object.end()) return empty;
    require(found->is_object(), std::string(key) + ": must be an object");
    return *found;
  };
  FieldReader model{object, "", {}};
  visit_model(spec, model);
  model.refuse_unknown({"attention", "mlp", "norm", "rotary"});
  FieldReader attention{nested("attention"), "attention.", {}};
  visit_attention(spec.attention, attention);
  attention.refuse_unknown();
  FieldReader mlp{nested("mlp"), "mlp.", {}};
  visit_mlp(spec.mlp, mlp);
  mlp.refuse_unknown();
  FieldReader norm{nested("norm"), "norm.", {}};
  visit_norm(spec.norm, norm);
  norm.refuse_unknown();
  FieldReader rotary{nested("rotary"), "rotary.", {}};
  visit_rotary(spec.rotary, rotary);
  rotary.refuse_unknown();
  spec.check();
  return spec;
}

std::string ModelSpec::to_json() const {
  json object = json::object();
  visit_model(*this, FieldWriter{object});
  visit_attention(attention, FieldWriter{object["attention"]});
  visit_mlp(mlp, FieldWriter{object["mlp"]});
  visit_norm(norm, FieldWriter{object["norm"]});
  visit_rotary(rotary, FieldWriter{object["rotary"]});
  return object.dump();
}

void ModelSpec::check() const {
  require_positive("vocab_size", vocab_size);
  require_positive("hidden_size", hidden_size);
  require_positive("num_layers", num_layers);
  require_positive("max_position_embeddings", max_position_embeddings);
  require_positive("attention.num_heads", attention.num_heads);
  require_positive("attention.num_key_value_heads", attention.num_key_value_heads);
  require_positive("attention.head_size", attention.head_size);
  require_positive("mlp.intermediate_size", mlp.intermediate_size);
  require_name("attention.kind", attention.kind, {"grouped_query"});
  require_name("mlp.kind", mlp.kind, {"gated"});
  require_name("mlp.activation", mlp.activation, {"silu"});
  require_name("norm.kind", norm.kind, {"rms_norm"});
  require_name("rotary.scaling", rotary.scaling, {"default", "linear", "dynamic", "llama3"});
  require(
      attention.num_heads % attention.num_key_value_heads == 0,
      "attention.num_key_value_heads (" + std::to_string(attention.num_key_value_heads) +
          ") must divide attention.num_heads (" + std::to_string(attention.num_heads) + ")");
  require(
      attention.head_size % 2 == 0,
      "attention.head_size (" + std::to_string(attention.head_size) +
          ") must be even for rotary position embedding");
}

}  // namespace mindspeed::models
