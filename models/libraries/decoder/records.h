#pragma once
// How the library's layers declare their records.
#include <capstan/decoder/decoder.h>

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

inline nn::WeightPtr table_of(const Spec& s, const std::string& module, std::int64_t rows) {
  return matrix_of(module + ".weight", {rows, s.hidden_size}, s.init_std);
}

struct Linears {
  std::vector<std::string> modules;
  std::vector<layout::Shape> features;  // each module's
  std::int64_t in;
  bool bias;
  double std;
};

// [features …, in] of each module, as one weight; with biases [features …].
inline nn::LinearWeights linear_of(const Linears& of) {
  std::vector<layout::Param> weights, biases;
  for (std::size_t i = 0; i < of.modules.size(); ++i) {
    auto shape = of.features.at(i);
    biases.push_back(nn::record(of.modules[i] + ".bias", shape, layout::Init::zeros(), false));
    shape.push_back(of.in);
    weights.push_back(nn::record(of.modules[i] + ".weight", shape, layout::Init::normal(of.std), true));
  }
  return {weight_with(std::move(weights)), of.bias ? weight_with(std::move(biases)) : nullptr};
}

inline double residual_std(const Spec& s) { return s.residual_init_std.value_or(s.init_std); }

// "embed_tokens" of "model.embed_tokens": what layers are called that strategies name.
inline std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// As a tensor of the dtype holds it.
double rounded(double value, at::ScalarType type);

}  // namespace capstan::decoder
