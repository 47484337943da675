#pragma once
// How the library's layers declare their records.
#include <capstan/nn/layers.h>
#include <capstan/nn/model.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace capstan::decoder {

inline nn::WeightPtr weight_with(std::vector<layout::Param> records) {
  return std::make_shared<nn::Weight>(std::move(records));
}

inline nn::WeightPtr vector_of(const std::string& name, std::int64_t size, layout::Init init) {
  return weight_with({nn::record(name, {size}, init, false)});
}

inline nn::WeightPtr matrix_of(const std::string& name, layout::Shape shape, double std) {
  return weight_with({nn::record(name, std::move(shape), layout::Init::normal(std), true)});
}

// "embed_tokens" of "model.embed_tokens": what layers are called that strategies name.
inline std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// As a tensor of the dtype holds it.
double rounded(double value, at::ScalarType type);

}  // namespace capstan::decoder
