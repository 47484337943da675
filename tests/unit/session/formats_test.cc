// A format that a strategy outside of this tree might bring: what it writes a run as, and packed weights that it reads.
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "assembly/assemble.h"
#include "checkpoint/scratch.h"
#include "nn/init_source.h"
#include "session/exports.h"
#include "session/model_folder.h"
#include "session/start_values.h"
#include "support/job.h"

using namespace capstan;
namespace fs = std::filesystem;

namespace {

/// float16's bits, in a file next to a tensor that says so.
class Halves : public nn::Codec, public nn::CodecFiles {
 public:
  std::string name() const override { return "halves"; }
  std::size_t stacked() const override { return 0; }
  std::string refusal(const Extent&) const override { return {}; }
  std::int64_t bytes(const Extent& extent) const override { return (2 * extent.numel() + 15) / 16 * 16; }
  void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum&) const override {
    bytes.narrow(0, 0, 2 * extent.numel()).copy_(values.to(at::kHalf).view({-1}).view(at::kByte));
  }
  void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const override {
    values.copy_(bytes.narrow(0, 0, 2 * extent.numel()).view(at::kHalf).view(values.sizes()));
  }
  std::string form() const override { return "halves"; }
  std::vector<Part> parts(const layout::Shape& shape) const override {
    return {{"", at::kByte, {2 * layout::numel(shape)}}, {".halves", at::kFloat, {1}}};
  }
  void check(const nn::CodedMatrix&) const override {}
  void read(const Extent& extent, std::int64_t first, const std::vector<nn::CodedMatrix>& matrices,
            const at::Tensor& bytes) const override {
    const auto part = matrices.front().parts.at("").narrow(0, 2 * first, 2 * extent.numel());
    bytes.narrow(0, 0, 2 * extent.numel()).copy_(part);
  }
  std::map<std::string, at::Tensor> write(const layout::Shape& shape, const at::Tensor& bytes,
                                          c10::ScalarType) const override {
    return {{"", bytes.narrow(0, 0, 2 * layout::numel(shape))}, {".halves", at::ones({1})}};
  }
  std::string config(const std::vector<std::string>&, c10::ScalarType) const override {
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
        linear.weight()->set_codec(std::make_shared<const Halves>());
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

session::Job job_with(const std::string& tables, const fs::path& model = {}) {
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

void write_folder(const session::Job& job, const fs::path& to, const std::string& form) {
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    nn::InitSource values(7);
    const session::ModelToWrite model{job.plugins, job.samples.tokenizer, *job.config.train,
                                      assembly::pointers(job.model->units)};
    session::ExportForm options;
    options.quantization = form;
    session::write_model_folder(model, values, to, options, communicator);
  });
}

}  // namespace

TEST_CASE("a folder in a form of a strategy's own is written, recognised and read") {
  const Scratch scratch;
  const std::string halves = "[strategy.halves]\n";
  write_folder(job_with(""), scratch / "plain", "");
  write_folder(job_with(halves, scratch / "plain"), scratch / "packed", "halves");
  const auto job = job_with(halves, scratch / "packed");
  CHECK(session::forms_of(assembly::pointers(job.model->units)) == std::vector<std::string>{"halves"});
  const auto packed = session::start_values(job), plain = session::start_values(job_with("", scratch / "plain"));
  int coded = 0;
  for (const auto* record : assembly::records_of(job.model->own)) {
    const auto whole = layout::Box::whole(record->shape);
    auto mine = at::empty(record->shape), expected = at::empty(record->shape);
    packed->fill(*record, whole, mine);
    plain->fill(*record, whole, expected);
    const bool is_coded = !nn::coded_in(*packed, *record, whole).empty();
    coded += is_coded ? 1 : 0;
    INFO(record->name);
    CHECK(at::equal(mine, is_coded ? expected.to(at::kHalf).to(at::kFloat) : expected));
  }
  CHECK(coded == 14);

  const auto fault_of = [&](const std::string& tables) -> std::string {
    try {
      (void)job_with(tables, scratch / "packed");
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  // A strategy that would keep them so may be there, and leave them out.
  CHECK_THAT(fault_of(halves + "keep = false\n"),
             Contains("14 tensors are in halves, and nothing in this run keeps them so: ") &&
                 Contains("fix: add [strategy.halves], or take the model that it was quantized from"));
  CHECK_THAT(fault_of(""), Contains("its weights are quantized (halving), which is not supported") &&
                               Contains("or one that was quantized by bitsandbytes (strategy.nf4)"));
}

TEST_CASE("a strategy's exporter writes a run's folder, or says why not") {
  const Scratch scratch;
  write_folder(job_with(""), scratch / "plain", "");
  const auto job = job_with("[strategy.halves]\n", scratch / "plain");
  CHECK(session::export_options(job.plugins.strategies) == "--to csv");
  const auto csv = session::exports_of(job.plugins.strategies).front();
  nn::InitSource values(7);
  const auto to = scratch / "there";
  CHECK(session::write_export(csv, job.plugins, values, to) == cat("table for csv: ", to.string(), " (a line)"));
  CHECK(read_file(to / "a.csv") ==
        cat(job.plugins.model.object->file_map().tensors.size(), ",", (scratch / "plain").string()));
  CHECK_FALSE(fs::exists(scratch / "there.tmp"));

  // At its end the run writes that, and its model's folder, since all records have a place there.
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    std::vector<checkpoint::TensorBox> boxes;
    const auto units = assembly::pointers(job.model->units);
    for (const auto* record : assembly::records_of(units)) {
      const auto whole = layout::Box::whole(record->shape);
      boxes.push_back({"model/" + record->name, record->shape, whole, at::zeros(record->shape)});
    }
    checkpoint::save(scratch / "weights", *communicator.group("weights", {0}, at::kCPU), {}, boxes);
    const auto lines = session::write_final_model({job.plugins, job.samples.tokenizer, *job.config.train, units},
                                                  scratch / "weights", scratch.path(), communicator);
    CHECK_THAT(lines, Contains("table for csv: ") && Contains("(a line)\nmodel for transformers: "));
  });
  CHECK(fs::exists(scratch / "table/a.csv"));
  CHECK(fs::exists(scratch / "model/model.safetensors"));
}
