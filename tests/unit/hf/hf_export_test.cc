// Weights of a Hugging Face folder, written by several ranks from any source.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/decoder/decoder.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"
#include "hf/hf_export.h"

namespace hf_export_test {

using namespace capstan;
using namespace capstan::checkpoint;
using namespace capstan::hf;
using layout::Box;
using layout::FileMap;
using layout::FusedPart;
using layout::Param;
using layout::Shape;

namespace {

constexpr std::int64_t h = 4, experts = 3, ff = 5;

// One of each kind: fused and transposed, fused, reshaped, stacked, a head without prefix.
FileMap all_kinds() {
  FileMap map;
  map.prefixes = {"model."};
  for (const auto& [part, i] : {std::pair{"q", 0}, {"k", 1}, {"v", 2}}) {
    map.tensors[cat(part, ".weight")] = {"attn.weight", true, FusedPart{0, i * h, 3 * h}, {}, {}};
    map.tensors[cat(part, ".bias")] = {"attn.bias", false, FusedPart{0, i * h, 3 * h}, {}, {}};
  }
  map.tensors["qkv"] = {"qkv.weight", false, {}, {}, {std::int64_t{30}, h}};
  for (int e = 0; e < experts; ++e) {
    for (const char* part : {"w1", "w3"}) map.tensors["gate_up"].stack.push_back(cat(e, ".", part));
  }
  map.tensors["lm_head"] = {"lm_head.weight", false, {}, {}, {}};
  map.tensors["ordered"] = {"ordered", false, {}, {0, 3, 2, 1}, {experts, h, 2 * ff}};
  return map;
}

std::vector<Param> all_records() {
  std::vector<Param> out;
  const auto add = [&](const std::string& name, const Shape& shape) {
    Param param;
    param.name = name;
    param.shape = shape;
    out.push_back(param);
  };
  for (const char* part : {"q", "k", "v"}) {
    add(cat(part, ".weight"), {h, h});
    add(cat(part, ".bias"), {h});
  }
  add("qkv", {2, 3, 5, h});
  add("gate_up", {experts, 2, ff, h});
  add("lm_head", {7, h});
  add("ordered", {experts, 2, ff, h});
  return out;
}

std::vector<const Param*> pointers(const std::vector<Param>& params) {
  std::vector<const Param*> out;
  for (const auto& param : params) out.push_back(&param);
  return out;
}

// A folder with these records as such files hold them, of mixed dtypes and with every bit pattern.
std::vector<NamedTensor> original_tensors() {
  const auto bits = [](const Shape& shape, at::ScalarType dtype) {
    auto shape_of_bytes = shape;
    shape_of_bytes.push_back(static_cast<std::int64_t>(c10::elementSize(dtype)));
    return at::randint(0, 256, shape_of_bytes, at::kByte).view(dtype).squeeze(-1);
  };
  std::vector<NamedTensor> out{{"model.attn.weight", bits({h, 3 * h}, at::kBFloat16)},
                               {"model.attn.bias", bits({3 * h}, at::kFloat)},
                               {"model.qkv.weight", bits({30, h}, at::kBFloat16)},
                               {"lm_head.weight", bits({7, h}, at::kBFloat16)},
                               {"model.ordered", bits({experts, h, 2 * ff}, at::kBFloat16)}};
  for (int e = 0; e < experts; ++e) {
    for (const char* part : {"w1", "w3"}) out.push_back({cat("model.", e, ".", part), bits({ff, h}, at::kBFloat16)});
  }
  return out;
}

std::map<std::string, std::string> bytes_of(const std::filesystem::path& path) {
  const SafetensorsFolder folder(path);
  std::map<std::string, std::string> out;
  for (const auto& name : folder.names()) {
    const auto& info = folder.find(name)->info(name);
    out[name] = cat(static_cast<int>(info.dtype), " ", layout::shape_text(info.shape), " ") +
                std::string(reinterpret_cast<const char*>(folder.find(name)->bytes(name)), info.end - info.begin);
  }
  return out;
}

std::string write_by(int ranks, const HfWeights& weights, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (int rank = 0; rank < ranks; ++rank) HfWriter(weights).write(to, rank, ranks);
  const HfWriter writer(weights);
  writer.write_index(to);
  return cat(writer.files(), " files, ", writer.bytes(), " bytes");
}

// Gives a constant, and says of which records it was asked.
class Constant : public layout::Source {
 public:
  explicit Constant(double value) : value_(value) {}
  bool has(const Param&) const override { return true; }
  void fill(const Param& param, const Box&, const at::Tensor& out) override {
    asked.insert(param.name);
    out.copy_(at::full(out.sizes(), value_, at::kDouble));  // as files are converted: beyond fp16 is infinite
  }
  std::set<std::string> asked;

 private:
  double value_;
};

void go_in_and_out(bool frozen) {
  at::manual_seed(3);
  const Scratch scratch;
  write_safetensors(scratch / "model.safetensors", original_tensors());
  FolderSource original(scratch.path(), all_kinds());
  auto records = all_records();
  for (auto& record : records) record.trainable = !frozen;
  Constant never(0);
  HfWeights weights;
  weights.records = pointers(records);
  weights.map = all_kinds();
  weights.values = frozen ? static_cast<layout::Source*>(&never) : &original;
  weights.original = &original;
  CHECK(write_by(1, weights, scratch / "one") == "1 files, 920 bytes");
  CHECK(std::filesystem::exists(scratch / "one/model.safetensors"));
  CHECK_FALSE(std::filesystem::exists(scratch / "one/model.safetensors.index.json"));
  CHECK(bytes_of(scratch / "one") == bytes_of(scratch.path()));
  CHECK(never.asked.empty());  // frozen records are the original's own
  CHECK(HfWriter(weights).dtype() == at::kBFloat16);

  weights.shard_bytes = 300;
  CHECK(write_by(2, weights, scratch / "many") == "4 files, 920 bytes");
  CHECK(bytes_of(scratch / "many") == bytes_of(scratch.path()));
  const auto index = Json::parse(read_file(scratch / "many/model.safetensors.index.json"));
  CHECK(index.at("metadata").at("total_size") == 920);
  CHECK(index.at("weight_map").at("lm_head.weight") == "model-00003-of-00004.safetensors");
  for (const auto& [name, file] : index.at("weight_map").items())
    CHECK(SafetensorsFile(scratch / "many" / file.get<std::string>()).has(name));
}

}  // namespace

TEST_CASE("what comes out of a folder goes into one as the same bytes under the same names") {
  for (const bool frozen : {false, true}) {
    INFO(frozen);
    go_in_and_out(frozen);
  }
}

TEST_CASE("each rank writes files of its own, with the tensors that belong in them") {
  const Scratch scratch;
  const auto records = all_records();
  Constant ones(1);
  HfWeights weights;
  weights.records = pointers(records);
  weights.map = all_kinds();
  weights.values = &ones;
  weights.dtype = at::kBFloat16;
  weights.shard_bytes = 300;
  const HfWriter writer(weights);
  writer.write(scratch.path(), 1, 3);
  CHECK(std::filesystem::exists(scratch / cat("model-00002-of-0000", writer.files(), ".safetensors")));
  CHECK_FALSE(std::filesystem::exists(scratch / cat("model-00001-of-0000", writer.files(), ".safetensors")));
  CHECK_FALSE(ones.asked.contains("q.weight"));  // in the first file
  write_by(3, weights, scratch / "all");
  // Without an original: the first prefix stands before every name but the head's.
  std::set<std::string> names;
  for (const auto& [name, bytes] : bytes_of(scratch / "all")) names.insert(name);
  CHECK(names == std::set<std::string>{"lm_head.weight", "model.attn.bias", "model.attn.weight", "model.qkv.weight",
                                       "model.0.w1", "model.0.w3", "model.1.w1", "model.1.w3", "model.2.w1",
                                       "model.2.w3", "model.ordered"});
}

TEST_CASE("what fp16 cannot hold, and what has no place, is refused") {
  const Scratch scratch;
  auto records = all_records();
  Constant large(1e5);
  HfWeights weights;
  weights.records = pointers(records);
  weights.map = all_kinds();
  weights.values = &large;
  weights.dtype = at::kHalf;
  CHECK_THAT(fault_of([&] { HfWriter(weights).write(scratch.path(), 0, 1); }),
             Contains("has values beyond fp16's 65,504\n    fix: export in bf16 or fp32: --dtype bf16"));
  CHECK(std::filesystem::is_empty(scratch.path()));
  records.front().name = "q.adapter";
  records.back().name = "k.adapter";
  CHECK(fault_of([&] { HfWriter{weights}; }) ==
        "2 records have no place in a Hugging Face model folder: q.adapter; k.adapter\n    fix: what a strategy "
        "added is in its own files: --to NAME");
}

namespace {

// A decoder whose head is called embed_out.
struct Neox {
  explicit Neox(bool tied = false) {
    spec.vocab_size = 7;
    spec.hidden_size = spec.ff_dim = 8;
    spec.num_layers = 1;
    spec.max_positions = 9;
    spec.attention.heads = {2, 2, 4};
    spec.tied_head = tied;
    spec.names.prefix = "gpt_neox.";
    spec.names.head = "embed_out";
    units = decoder::units(spec);
  }
  std::vector<nn::Unit*> list() const {
    std::vector<nn::Unit*> all;
    for (const auto& unit : units) all.push_back(unit.get());
    return all;
  }
  decoder::Spec spec;
  std::vector<std::unique_ptr<nn::Unit>> units;
};

}  // namespace

TEST_CASE("a head of another name than lm_head is written under its own, or refused") {
  const Neox neox;
  const auto files = decoder::files(neox.spec);
  Constant ones(1);
  HfWeights weights;
  for (auto* record : nn::parameters(neox.list())) weights.records.push_back(record);
  weights.map = files;
  weights.values = &ones;
  std::set<std::string> names;
  for (const auto& [name, value] : HfWriter(weights).values()) names.insert(name);
  CHECK(names.contains("embed_out.weight"));
  CHECK(names.contains("gpt_neox.model.embed_tokens.weight"));
  CHECK(misnamed_head(neox.list(), files) == "");

  auto wrong = files;
  wrong.unprefixed = {"lm_head.weight"};
  CHECK(misnamed_head(neox.list(), wrong) ==
        "the head embed_out.weight would be written as gpt_neox.embed_out.weight, although it is neither below "
        "\"gpt_neox.\" nor among FileMap::unprefixed, where its model has lm_head.weight");
  wrong.tensors.at("embed_out.weight").name = "lm_head.weight";
  CHECK(misnamed_head(neox.list(), wrong) == "");
  wrong.tensors.at("embed_out.weight").name = "gpt_neox.embed_out.weight";
  CHECK(misnamed_head(neox.list(), wrong) == "");
  CHECK(wrong.published("gpt_neox.embed_out.weight") == "gpt_neox.embed_out.weight");
  const Neox tied(true);
  CHECK(misnamed_head(tied.list(), decoder::files(tied.spec)) == "");
}

}  // namespace hf_export_test
