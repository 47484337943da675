#pragma once
#include <capstan/model.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace my_plugin_plugin {

namespace nn = capstan::nn;

/// The options of [model]. Their defaults are here; describe() declares the rest, once.
struct MyPluginOptions {
  std::int64_t vocab_size = 258;
  std::int64_t hidden_size = 64;
  std::int64_t num_layers = 2;
  std::int64_t num_heads = 4;
  std::int64_t seq_length = 512;

  static void describe(capstan::config::OptionTable<MyPluginOptions>& t);
};

/// An example to replace: a small transformer. It does not know how it is distributed; every strategy can train it.
class MyPlugin final : public nn::Model {
 public:
  explicit MyPlugin(capstan::config::Options<MyPluginOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override;
  nn::ModelFacts facts() const override;
  std::vector<std::unique_ptr<nn::Unit>> build() const override;
  double flops_per_token(std::int64_t sequence_length) const override;
  capstan::layout::FileMap file_map() const override;

 private:
  capstan::config::Options<MyPluginOptions> options_;
};

/// Token ids [B, S] to hidden states [B, S, hidden].
class MyPluginEmbedding final : public nn::Unit {
 public:
  explicit MyPluginEmbedding(const MyPluginOptions& options);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::Embedding tokens_;
  nn::Embedding positions_;
};

/// x + attention(norm(x)), then x + feed_forward(norm(x)).
class MyPluginBlock final : public nn::Unit {
 public:
  MyPluginBlock(const MyPluginOptions& options, std::int64_t index);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::LayerNorm norm(const std::string& layer, std::int64_t size);
  /// Matrices of this block, [out, in] each, fused in one product.
  nn::WeightPtr matrices(const std::vector<std::string>& layers, std::int64_t out, std::int64_t in);

  nn::LayerNorm norm1_;
  nn::LayerNorm norm2_;
  nn::Attention attention_;
  nn::Mlp mlp_;
};

/// Hidden states to the loss sum; without labels, to logits [B, vocab] of each row's position `last`.
class MyPluginHead final : public nn::Unit {
 public:
  explicit MyPluginHead(const MyPluginOptions& options);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::LayerNorm norm_;
  nn::VocabularyHead head_;
};

}  // namespace my_plugin_plugin
