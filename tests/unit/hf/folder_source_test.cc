#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"
#include "hf/folder_source.h"
#include "support/errors.h"

namespace folder_source_test {

using namespace capstan;
using namespace capstan::checkpoint;
using hf::FolderSource;
using layout::Box;
using layout::FileMap;
using layout::FileTensor;
using layout::FusedPart;
using layout::Param;
using layout::Shape;

namespace {

constexpr std::int64_t hidden = 4;

Param record(const std::string& name, const Shape& shape) {
  Param param;
  param.name = name;
  param.shape = shape;
  return param;
}

at::Tensor numbered(const Shape& shape) { return at::arange(layout::numel(shape), at::kFloat).view(shape); }

// GPT-2's fused QKV (transposed in its file), BLOOM's (a matrix there) and a plain tensor.
FileMap small_map() {
  FileMap map;
  map.prefixes = {"transformer."};
  map.ignored = {".attn.bias"};
  map.copies = {{"lm_head.weight", "wte.weight"}};
  for (const auto& [part, i] : {std::pair{"q", 0}, {"k", 1}, {"v", 2}}) {
    const FusedPart third{0, i * hidden, 3 * hidden};
    map.tensors[cat("h.0.attn.", part, ".weight")] = {"h.0.attn.c_attn.weight", true, third, {}, {}};
    map.tensors[cat("h.0.attn.", part, ".bias")] = {"h.0.attn.c_attn.bias", false, third, {}, {}};
  }
  map.tensors["qkv"] = {"query_key_value.weight", false, {}, {}, {std::int64_t{6} * 5, hidden}};
  map.tensors["wte.weight"] = {"wte.weight", false, {}, {}, {}};
  return map;
}

std::vector<NamedTensor> small_tensors(const std::string& prefix) {
  return {{prefix + "h.0.attn.c_attn.weight", numbered({hidden, 3 * hidden})},
          {prefix + "h.0.attn.c_attn.bias", numbered({3 * hidden})},
          {prefix + "h.0.attn.bias", at::ones({1, 1, 8, 8}, at::kBool)},
          {prefix + "query_key_value.weight", numbered({30, hidden})},
          {prefix + "wte.weight", numbered({7, hidden})},
          {"lm_head.weight", numbered({7, hidden})}};
}

std::vector<Param> small_records() {
  std::vector<Param> out;
  for (const char* part : {"q", "k", "v"}) {
    out.push_back(record(cat("h.0.attn.", part, ".weight"), {hidden, hidden}));
    out.push_back(record(cat("h.0.attn.", part, ".bias"), {hidden}));
  }
  out.push_back(record("qkv", {2, 3, 5, hidden}));
  out.push_back(record("wte.weight", {7, hidden}));
  return out;
}

std::vector<std::string> faults_of(const FolderSource& source, const std::vector<Param>& params) {
  std::vector<const Param*> pointers;
  for (const auto& param : params) pointers.push_back(&param);
  Diagnostics diagnostics;
  source.check(pointers, diagnostics);
  std::vector<std::string> out;
  for (const auto& diagnostic : diagnostics.list()) out.push_back(diagnostic.text());
  return out;
}

// What each record of small_records() must be, from the definition of Conv1D and of the fused parts.
std::map<std::string, at::Tensor> small_values() {
  const auto fused = numbered({hidden, 3 * hidden}).t();
  const auto bias = numbered({3 * hidden});
  std::map<std::string, at::Tensor> out;
  for (const auto& [part, i] : {std::pair{"q", 0}, {"k", 1}, {"v", 2}}) {
    out[cat("h.0.attn.", part, ".weight")] = fused.slice(0, i * hidden, (i + 1) * hidden);
    out[cat("h.0.attn.", part, ".bias")] = bias.slice(0, i * hidden, (i + 1) * hidden);
  }
  out["qkv"] = numbered({2, 3, 5, hidden});
  out["wte.weight"] = numbered({7, hidden});
  return out;
}

}  // namespace

TEST_CASE("every box of every record is cut out of a model's files, with and without the prefix") {
  const auto values = small_values();
  for (const std::string prefix : {"", "transformer."}) {
    const Scratch scratch;
    write_safetensors(scratch / "model.safetensors", small_tensors(prefix));
    FolderSource source(scratch.path(), small_map());
    CHECK(faults_of(source, small_records()).empty());
    for (const auto& param : small_records()) {
      REQUIRE(source.has(param));
      const auto& whole = values.at(param.name);
      auto all = at::empty(param.shape);
      source.fill(param, Box::whole(param.shape), all);
      CHECK(at::equal(all, whole));
      for (std::int64_t begin = 0; begin <= param.shape[0]; ++begin) {
        for (std::int64_t end = begin; end <= param.shape[0]; ++end) {
          auto box = Box::whole(param.shape);
          box.offset[0] = begin;
          box.size[0] = end - begin;
          box.offset.back() += box.offset.size() > 1 ? 1 : 0;
          box.size.back() -= box.offset.size() > 1 ? 1 : 0;
          auto out = at::empty({box.numel()}, at::kDouble);
          source.fill(param, box, out);
          auto part = whole.slice(0, begin, end);
          if (part.dim() > 1) part = part.slice(-1, 1, hidden);
          REQUIRE(at::equal(out, part.reshape(-1).to(at::kDouble)));
        }
      }
    }
  }
}

// Mixtral's experts: [experts, 2, ff, hidden] is a tensor for each expert's gate and up, [experts, hidden, ff] one
// each.
TEST_CASE("a record that stacks tensors takes every box from each of them") {
  constexpr std::int64_t experts = 3, ff = 5;
  const Scratch scratch;
  FileMap map;
  map.prefixes = {"model."};
  auto& gate_up = map.tensors["gate_up"];
  auto& down = map.tensors["down"];
  std::vector<NamedTensor> files;
  std::vector<at::Tensor> gate_up_values, down_values;
  const auto add = [&](const std::string& name, const Shape& shape, FileTensor& tensor, std::vector<at::Tensor>& all) {
    all.push_back(numbered(shape) + 100.0 * static_cast<double>(files.size()));
    files.push_back({"model." + name, all.back()});
    tensor.stack.push_back(name);
  };
  for (std::int64_t e = 0; e < experts; ++e) {
    add(cat(e, ".w1"), {ff, hidden}, gate_up, gate_up_values);
    add(cat(e, ".w3"), {ff, hidden}, gate_up, gate_up_values);
    add(cat(e, ".w2"), {hidden, ff}, down, down_values);
  }
  write_safetensors(scratch / "model.safetensors", files);
  FolderSource source(scratch.path(), map);
  const std::vector<Param> params{record("gate_up", {experts, 2, ff, hidden}), record("down", {experts, hidden, ff})};
  CHECK(faults_of(source, params).empty());
  const std::vector<at::Tensor> whole{at::stack(gate_up_values).view(params[0].shape), at::stack(down_values)};
  for (std::size_t p = 0; p < params.size(); ++p) {
    REQUIRE(source.has(params[p]));
    for (std::size_t dim = 0; dim < params[p].shape.size(); ++dim) {
      for (std::int64_t begin = 0; begin <= params[p].shape[dim]; ++begin) {
        for (std::int64_t end = begin; end <= params[p].shape[dim]; ++end) {
          auto box = Box::whole(params[p].shape);
          box.offset[dim] = begin;
          box.size[dim] = end - begin;
          auto out = at::empty({box.numel()}, at::kDouble);
          source.fill(params[p], box, out);
          const auto part = whole[p].slice(static_cast<std::int64_t>(dim), begin, end);
          REQUIRE(at::equal(out, part.reshape(-1).to(at::kDouble)));
        }
      }
    }
  }
  map.tensors["down"].stack[1] = "gone.w2";
  CHECK(faults_of(FolderSource(scratch.path(), map), params) ==
        std::vector<std::string>{
            scratch.path().string() + ": 1 tensor missing (said without the \"model.\" of this folder's names): "
                                      "gone.w2\n    fix: is it a folder of this model's family?",
            scratch.path().string() + ": 1 tensor that the model does not have: model.1.w2\n    fix: take the model's "
                                      "sizes from its config.json"});
  FolderSource broken(scratch.path(), map);
  CHECK_FALSE(broken.has(params[1]));
  auto out = at::empty(params[1].shape);
  CHECK(fault_of([&] { broken.fill(params[1], Box::whole(params[1].shape), out); }) ==
        scratch.path().string() + ": it has no tensor 'gone.w2'");
}

TEST_CASE("a leaf that requires grad is filled in place") {
  const Scratch scratch;
  write_safetensors(scratch / "model.safetensors", small_tensors(""));
  FolderSource source(scratch.path(), small_map());
  const auto param = record("h.0.attn.k.weight", {hidden, hidden});
  auto leaf = at::zeros(param.shape).set_requires_grad(true);
  source.fill(param, Box::whole(param.shape), leaf);
  CHECK(at::equal(leaf, small_values().at(param.name)));
  CHECK(leaf.is_leaf());
}

TEST_CASE("all missing, mis-shaped and unexpected tensors are said at once") {
  const Scratch scratch;
  auto tensors = small_tensors("");
  tensors[0] = {"h.1.ln.weight", numbered({7})};
  tensors[1] = {"h.0.attn.c_attn.bias", numbered({9})};
  tensors[3] = {"query_key_value.weight", at::ones({30, hidden}, at::kLong)};
  tensors[4] = {"h.2.ln.weight", numbered({7})};
  write_safetensors(scratch / "model.safetensors", tensors);
  FolderSource source(scratch.path(), small_map());
  auto params = small_records();
  params.push_back(record("adapter", {2}));
  const auto where = scratch.path().string() + ": ";
  CHECK(faults_of(source, params) ==
        std::vector<std::string>{
            where + "3 tensors missing: h.0.attn.c_attn.weight; wte.weight; adapter\n    fix: is it a folder of this "
                    "model's family?",
            where + "2 tensors of another kind: h.0.attn.c_attn.bias is [9], the model needs [12]; "
                    "query_key_value.weight holds I64, not floating-point numbers\n    fix: take the model's sizes "
                    "from its config.json, and weights in a form of docs/model-files.md",
            where + "2 tensors that the model does not have: h.1.ln.weight; h.2.ln.weight\n    fix: take the model's "
                    "sizes from its config.json"});
  CHECK_FALSE(source.has(params.back()));
  auto out = at::empty({hidden});
  CHECK(fault_of([&] { source.fill(params.back(), Box::whole({2}), out); }) ==
        where + "it has no tensor for 'adapter'");
  CHECK(fault_of([&] { source.fill(params[1], Box::whole({hidden}), out); }) ==
        (scratch / "model.safetensors").string() + ": tensor 'h.0.attn.c_attn.bias' is [9], the model needs [12]");
}

TEST_CASE("damaged files are said together with everything else that is wrong") {
  const Scratch scratch;
  const auto file = [](int n) { return cat("model-0000", n, "-of-00004.safetensors"); };
  write_safetensors(scratch / file(1), {{"a", numbered({3})}, {"b", numbered({5})}, {"c", numbered({7})}});
  write_safetensors(scratch / file(2), {{"d", numbered({4})}, {"extra", numbered({1})}});
  write_safetensors(scratch / file(3), {{"e", numbered({2})}});
  std::filesystem::resize_file(scratch / file(1), std::filesystem::file_size(scratch / file(1)) - 8 * sizeof(float));
  Json map;
  for (const auto& [name, n] : std::vector<std::pair<std::string, int>>{
           {"a", 1}, {"b", 1}, {"c", 1}, {"d", 2}, {"extra", 2}, {"e", 3}, {"f", 3}, {"g", 4}})
    map[name] = file(n);
  const auto index = scratch / "model.safetensors.index.json";
  write_file(index, Json{{"weight_map", map}}.dump());
  FileMap names;
  std::vector<Param> params;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    names.tensors[name] = {name, false, {}, {}, {}};
    params.push_back(record(name, {3}));
  }
  const auto faults = faults_of(FolderSource(scratch.path(), names), params);
  REQUIRE(faults.size() == 6);
  // b's last 1 and all of c's 7 elements are gone: the file's order is by name.
  CHECK_THAT(faults[0], Contains(file(1) + ": truncated: its header describes ") &&
                            Contains("; 2 tensors are cut off: b; c\n    fix: it is damaged: copy"));
  CHECK_THAT(faults[1], Contains("says that '" + file(3) +
                                 "' holds tensor 'f', but it does not\n    fix: they "
                                 "are of different downloads: download the folder again"));
  CHECK_THAT(faults[2], Contains("names '" + file(4) + "', which is not there"));
  const auto where = scratch.path().string() + ": ";
  CHECK_THAT(faults[3], Contains(where + "1 tensor missing: h\n"));
  CHECK_THAT(faults[4], Contains("4 tensors of another kind: b is [5], the model needs [3]; c is [7], the "
                                 "model needs [3]; d is [4], the model needs [3]; e is [2]"));
  CHECK_THAT(faults[5], Contains("1 tensor that the model does not have: extra\n"));
}

TEST_CASE("where there is a single file and an index, the file is read, as transformers does") {
  const Scratch scratch;
  write_safetensors(scratch / "model.safetensors", {{"a", numbered({3})}});
  write_safetensors(scratch / "part.safetensors", {{"a", numbered({3}).add(5)}});
  write_file(scratch / "model.safetensors.index.json",
             Json{{"weight_map", {{"a", "part.safetensors"}, {"b", "gone.safetensors"}}}}.dump());
  FileMap names;
  names.tensors["a"] = {"a", false, {}, {}, {}};
  const auto param = record("a", {3});
  FolderSource source(scratch.path(), names);
  CHECK(faults_of(source, {param}).empty());
  const auto value = at::zeros({3}, at::kFloat);
  source.fill(param, Box::whole({3}), value);
  CHECK(at::equal(value, numbered({3})));
}

TEST_CASE("a single file that is cut off is judged by its header; what is cut off is never read") {
  const Scratch scratch;
  const auto path = scratch / "model.safetensors";
  write_safetensors(path, {{"a", numbered({3})}, {"b", numbered({5})}, {"extra", numbered({100})}});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  FileMap names;
  std::vector<Param> params;
  for (const char* name : {"a", "b", "c"}) {
    names.tensors[name] = {name, false, {}, {}, {}};
    params.push_back(record(name, {3}));
  }
  FolderSource source(scratch.path(), names);
  const auto faults = faults_of(source, params);
  REQUIRE(faults.size() == 4);
  CHECK_THAT(faults[0], Contains("; 1 tensor is cut off: extra\n"));
  CHECK_THAT(faults[1], Contains("1 tensor missing: c\n"));
  CHECK_THAT(faults[2], Contains("1 tensor of another kind: b is [5], the model needs [3]\n"));
  CHECK_THAT(faults[3], Contains("1 tensor that the model does not have: extra\n"));
  auto out = at::empty({3});
  source.fill(params[0], Box::whole({3}), out);
  CHECK(at::equal(out, numbered({3})));
  Diagnostics cut;
  const SafetensorsFile file(path, cut);
  auto all = at::empty({100});
  CHECK(fault_of([&] { file.read("extra", Box::whole({100}), all); }) ==
        path.string() + ": tensor 'extra' is cut off\n    fix: the file is damaged: copy or download it again");
}

TEST_CASE("long lists of names are cut") {
  const Scratch scratch;
  std::vector<NamedTensor> tensors;
  for (int i = 10; i < 35; ++i) tensors.push_back({cat("x", i), at::ones({1})});
  write_safetensors(scratch / "model.safetensors", tensors);
  const auto faults = faults_of(FolderSource(scratch.path(), {}), {});
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults[0],
             Contains("25 tensors that the model does not have: x10; x11; ") && Contains("; x29; … and 5 more\n"));
}

TEST_CASE("a tied head's copy is compared with the table, bit by bit and only where a box is read") {
  const Scratch scratch;
  const auto table = record("wte.weight", {7, hidden});
  const auto read = [&](const at::Tensor& head, const Box& box) {
    auto tensors = small_tensors("transformer.");
    tensors.back().tensor = head;
    checkpoint::write_safetensors(scratch / "model.safetensors", tensors);
    FolderSource source(scratch.path(), small_map());
    const auto out = at::empty(box.size, at::kFloat);
    return test::error_of([&] { source.fill(table, box, out); });
  };
  const auto whole = Box::whole(table.shape);
  const auto same = numbered({7, hidden});
  CHECK(read(same, whole).empty());
  auto other = same.clone();
  other[4][1] = -other[4][1];
  CHECK_THAT(read(other, whole), Contains("lm_head.weight differs from transformer.wte.weight") &&
                                     Contains("set model.tie_word_embeddings = false"));
  CHECK(read(other, Box{{0, 0}, {4, hidden}}).empty());
  CHECK(read(other, Box{{4, 0}, {1, 1}}).empty());
  CHECK_THAT(read(other, Box{{4, 1}, {2, 1}}), Contains("differs"));
  CHECK_THAT(read(same.to(at::kDouble), whole), Contains("differs"));
  CHECK_THAT(read(numbered({8, hidden}), whole), Contains("differs"));
}

TEST_CASE("what may be absent is no fault where the folder has nothing of it, and is read where it has") {
  auto map = small_map();
  map.may_be_absent = {"score.weight"};
  map.tensors["score.weight"] = {"score.weight", false, {}, {}, {}};
  auto records = small_records();
  records.push_back(record("score.weight", {2, hidden}));
  const auto& score = records.back();
  const Scratch scratch;
  write_safetensors(scratch / "model.safetensors", small_tensors(""));
  const FolderSource without(scratch.path(), map);
  CHECK(faults_of(without, records).empty());
  CHECK(without.may_lack(score));
  CHECK_FALSE(without.has(score));
  CHECK_FALSE(without.may_lack(records.front()));
  auto tensors = small_tensors("");
  tensors.push_back({"score.weight", numbered({3, hidden})});
  write_safetensors(scratch / "model.safetensors", tensors);
  const FolderSource with(scratch.path(), map);
  CHECK_FALSE(with.may_lack(score));
  REQUIRE(faults_of(with, records).size() == 1);
  CHECK_THAT(faults_of(with, records).front(), Contains("score.weight is [3, 4], the model needs [2, 4]"));
}

}  // namespace folder_source_test
