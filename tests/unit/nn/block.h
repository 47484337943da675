#pragma once
// A unit of a feed-forward layer and of a layer whose kind nn does not have.
#include <capstan/nn/model.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace capstan::testing {

inline nn::WeightPtr weight(const std::string& name, const layout::Shape& shape) {
  return std::make_shared<nn::Weight>(std::vector<layout::Param>{nn::record(name, shape, layout::Init::zeros(), true)});
}

/// A kind of layer that nn does not have.
class Gain : public nn::Layer {
 public:
  Gain(nn::Layer& parent, nn::WeightPtr weight)
      : Layer(parent, "gain"), weight_(own(std::move(weight), nn::Use::states)) {}

 private:
  nn::WeightPtr weight_;
};

/// A feed-forward layer and a gain; with `raw`, a record that the unit uses itself.
class Block : public nn::Unit {
 public:
  explicit Block(bool raw = false)
      : Unit("blocks.0"),
        norm_(*this, "norm", weight("norm.weight", {4}), 1e-6),
        mlp_(*this, {nn::Activation::gelu, false}, {weight("up.weight", {6, 4}), weight("up.bias", {6})},
             {weight("down.weight", {4, 6}), weight("down.bias", {4})}),
        gain_(*this, weight("gain.weight", {4})) {
    if (raw) add_record("raw.weight", {4}, layout::Init::ones(), false);
  }
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }

 private:
  nn::RmsNorm norm_;
  nn::Mlp mlp_;
  Gain gain_;
};

}  // namespace capstan::testing
