#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/param.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

class Codec;

/// One matrix or vector as a layer uses it: one parameter record, or a fused group of records (q, k, v) that lie
/// side by side along dimension 0 and are used as one. A weight that two units share (a tied head) is one object.
///
/// Holds no memory of its own. The shard engine binds `value`: an autograd leaf in the compute dtype with this
/// rank's compute shape, which holds data only between the engine's gather and release.
class Weight {
 public:
  explicit Weight(std::vector<layout::Param> records);

  std::vector<layout::Param>& records() { return records_; }
  const std::vector<layout::Param>& records() const { return records_; }
  /// The record's name, or "h.0.attn.q+k+v.weight" for a fused group: for messages.
  std::string name() const;
  /// The records of a fused group are trained or frozen together.
  bool trainable() const { return records_.front().trainable; }
  /// Elements of all records (logical).
  std::int64_t numel() const;

  /// What a strategy has the values held or moved by, if not as numbers; null: none. Whether it does so depends on what
  /// it can and on whether the weight is trained, which the two functions below say.
  const std::shared_ptr<Codec>& codec() const { return codec_; }
  /// A strategy calls it in structure().
  void set_codec(std::shared_ptr<Codec> codec) { codec_ = std::move(codec); }
  /// The codec that keeps the values of this frozen weight. Null: they are numbers.
  Codec* keeping_codec() const;
  /// The codec by which ranks gather this trained weight, where they share it. Null: they gather numbers.
  Codec* gathering_codec() const;

  const at::Tensor& value() const;
  void bind(at::Tensor leaf) { value_ = std::move(leaf); }
  bool is_bound() const { return value_.defined(); }

 private:
  std::vector<layout::Param> records_;
  std::shared_ptr<Codec> codec_;
  at::Tensor value_;
};

using WeightPtr = std::shared_ptr<Weight>;

/// A record of a dense parameter with the usual defaults.
layout::Param record(std::string name, std::vector<std::int64_t> shape, layout::Init init, bool decay);

}  // namespace nn
CAPSTAN_END_NAMESPACE
