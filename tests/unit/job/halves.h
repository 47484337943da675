#pragma once
// A format that a strategy outside of this tree might bring: what it writes a run as, and packed weights that it reads.
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/scratch.h"
#include "hf/door.h"
#include "job/assemble.h"
#include "nn/init_source.h"
#include "support/job.h"

namespace halves {

using namespace capstan;
namespace fs = std::filesystem;

/// float16's bits, in a file beside a tensor that says so.
class Halves : public nn::Codec {
 public:
  Capabilities capabilities() const override { return {.packs = true, .has_files = true}; }
  std::string name() const override { return "halves"; }
  std::string fix() const override { return "set strategy.halves.keep = false"; }
  std::size_t stacked() const override { return 0; }
  std::int64_t bytes(const Extent& extent) const override { return (2 * extent.numel() + 15) / 16 * 16; }
  void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum&) const override {
    bytes.narrow(0, 0, 2 * extent.numel()).copy_(values.to(at::kHalf).view({-1}).view(at::kByte));
  }
  void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const override {
    values.copy_(bytes.narrow(0, 0, 2 * extent.numel()).view(at::kHalf).view(values.sizes()));
  }
  std::string form() const override { return "halves"; }
  std::vector<FilePart> file_parts(const layout::Shape& shape) const override {
    return {{"", at::kByte, {2 * layout::numel(shape)}}, {".halves", at::kFloat, {1}}};
  }
  void check_matrix(const nn::CodedMatrix&) const override {}
  void read_matrices(const Extent& extent, std::int64_t first, const std::vector<nn::CodedMatrix>& matrices,
                     const at::Tensor& bytes) const override {
    const auto part = matrices.front().parts.at("").narrow(0, 2 * first, 2 * extent.numel());
    bytes.narrow(0, 0, 2 * extent.numel()).copy_(part);
  }
  std::map<std::string, at::Tensor> write_matrix(const layout::Shape& shape, const at::Tensor& bytes,
                                                 c10::ScalarType) const override {
    return {{"", bytes.narrow(0, 0, 2 * layout::numel(shape))}, {".halves", at::ones({1})}};
  }
  std::string files_config(const std::vector<std::string>&, c10::ScalarType) const override {
    return R"({"quant_method": "halving"})";
  }
};

class Table : public strategy::Exporter {
 public:
  std::string name() const override { return "csv"; }
  std::string folder() const override { return "table"; }
  bool at_end() const override { return true; }
  std::string refusal(const layout::FileMap& files) const override {
    return files.tensors.contains("model.norm.weight") ? "" : "it has no last norm";
  }
  std::string write(const fs::path& folder, const strategy::Exported& run) const override {
    write_file(folder / "a.csv", cat(run.files.tensors.size(), ",", run.base));
    return "a line";
  }
};

struct HalvesOptions {
  bool keep = true;
  static void describe(config::OptionTable<HalvesOptions>& t) { t.add("keep", &HalvesOptions::keep).doc("in halves"); }
};

class HalvesStrategy : public strategy::Strategy {
 public:
  explicit HalvesStrategy(config::Options<HalvesOptions> options) : options_(std::move(options)) {}
  void structure(std::vector<std::unique_ptr<nn::Unit>>& units) override {
    if (!options_->keep) return;
    for (const auto& unit : units) {
      unit->each<nn::Linear>([](const nn::Linear& linear) {
        for (auto& record : linear.weight()->records()) record.trainable = false;
        linear.weight()->set_codec(std::make_shared<Halves>());
      });
    }
  }
  std::vector<std::shared_ptr<const strategy::Exporter>> exporters() const override {
    return {std::make_shared<const Table>()};
  }
  std::vector<nn::PackedForm> packed_forms() const override {
    return {{"halves", "halving", {".halves"}, "in halves", "add [strategy.halves]"}};
  }

 private:
  config::Options<HalvesOptions> options_;
};

inline job::Job job_with(const std::string& tables, const fs::path& model = {}) {
  static plugin::Host host;
  static const bool once =
      (host.add(testing::type<strategy::Strategy, HalvesStrategy, HalvesOptions>("strategy", "halves")), true);
  CHECK(once);
  const Scratch scratch;
  write_file(scratch / "a.toml",
             "[run]\ndevice = \"cpu\"\n[model]\nplugin = \"llama\"\nvocab_size = 261\nnum_layers = 2\nseq_length = 24\n"
             "hidden_size = 16\nnum_heads = 2\nff_dim = 24\n[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n"
             "[train]\nmax_steps = 1\nglobal_batch = 1\nprecision = \"fp32\"\n" +
                 tables);
  setup::JobRequest request;
  request.file = (scratch / "a.toml").string();
  if (!model.empty()) request.overrides.push_back("model.path=" + model.string());
  return testing::job_of(request, host);
}

inline void write_folder(const job::Job& job, const fs::path& to, const std::string& form) {
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    nn::InitSource values(7);
    const hf::ModelToWrite model{job.plugins, job.samples.tokenizer, *job.config.train,
                                 job::pointers(job.model->units)};
    session::ExportForm options;
    options.quantization = form;
    hf::door().write(model, values, to, options, communicator);
  });
}

}  // namespace halves
