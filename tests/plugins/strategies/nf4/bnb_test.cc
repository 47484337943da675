// bitsandbytes' files: what is written is read without a changed bit, whole and in pieces, and trained on.
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/testing.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cmath>
#include <fstream>

#include "checkpoint/scratch.h"
#include "hf/door.h"
#include "job/assemble.h"
#include "nn/init_source.h"
#include "nn/weights.h"
#include "plugins/strategies/nf4/codec.h"
#include "support/families.h"
#include "support/job.h"

namespace bnb_test {

using namespace capstan;
using namespace capstan::testing;
namespace fs = std::filesystem;

namespace {

const nf4::Codec codec(0);
constexpr std::int64_t rows = 128, columns = 384;

nn::CodedMatrix written(const at::Tensor& values) {
  const nn::Codec::Extent whole{1, rows * columns};
  auto bytes = at::empty({codec.bytes(whole)}, at::kByte);
  codec.encode(whole, values.view({1, -1}), bytes, {});
  return {"h.weight", "a.safetensors", {rows, columns}, codec.write_matrix({rows, columns}, bytes, at::kBFloat16)};
}

at::Tensor decoded(const nn::Codec::Extent& extent, std::int64_t first, const std::vector<nn::CodedMatrix>& matrices) {
  const auto bytes = at::empty({codec.bytes(extent)}, at::kByte);
  codec.read_matrices(extent, first, matrices, bytes);
  auto values = at::empty({extent.matrices, extent.elements}, at::kBFloat16);
  codec.decode(extent, bytes, values);
  return values;
}

void set_state(nn::CodedMatrix& matrix, const std::string& key, const Json& value) {
  auto& bytes = matrix.parts.at(".quant_state.bitsandbytes__nf4");
  auto json = Json::parse({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  json[key] = value;
  const auto text = json.dump();
  bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.data_ptr<std::uint8_t>());
}

std::string fault(const std::function<void(nn::CodedMatrix&)>& change) {
  auto matrix = written(numbers({rows, columns}, 0.3).to(at::kBFloat16));
  change(matrix);
  try {
    codec.check_matrix(matrix);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string sizes = "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 128\n";
const std::string lora = "[strategy.lora]\ntargets = [\"linear_qkv\", \"linear_proj\"]\ninit = \"random\"\n";
const std::string nf4_table = "[strategy.nf4]\n";

const std::string rest =
    "[run]\ndevice = \"cpu\"\n[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n"
    "[train]\nmax_steps = 1\nglobal_batch = 1\nprecision = \"fp64\"\n";

/// Writes the model that a configuration draws, or takes from a folder.
void write_model(const std::string& config, const fs::path& from, const fs::path& to, const std::string& form) {
  const Scratch scratch;
  write_file(scratch / "a.toml", config + rest);
  setup::JobRequest request;
  request.file = (scratch / "a.toml").string();
  if (!from.empty()) request.overrides.push_back("model.path=" + from.string());
  const auto job = testing::job_of(request);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    nn::InitSource values(7);
    const hf::ModelToWrite model{job.plugins, job.samples.tokenizer, *job.config.train,
                                 job::pointers(job.model->units)};
    session::ExportForm options;
    options.quantization = form;
    hf::door().write(model, values, to, options, communicator);
  });
}

TrainResult run(const std::string& tables, const fs::path& folder, int world = 1) {
  return train(
      {.world = world,
       .config = family_config({"llama", sizes}) + tables,
       .overrides = {same_micro_steps, "train.global_batch=36", "data.tokenizer=byte", "model.path=" + folder.string()},
       .steps = 3});
}

std::string error_of(const std::string& tables, const fs::path& folder) {
  try {
    run(tables, folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a matrix is written and read without a changed bit, whole, in rows and in columns") {
  const auto values = numbers({2, rows, columns}, 0.3).to(at::kBFloat16);
  const std::vector<nn::CodedMatrix> matrices{written(values[0]), written(values[1])};
  codec.check_matrix(matrices[0]);
  const auto whole = decoded({2, rows * columns}, 0, matrices).view({2, rows, columns});
  for (std::int64_t m = 0; m < 2; ++m) {
    const nn::Codec::Extent one{1, rows * columns};
    const auto bytes = at::empty({codec.bytes(one)}, at::kByte), again = at::empty_like(bytes);
    codec.encode(one, values[m].reshape({1, -1}), bytes, {});
    codec.read_matrices(one, 0, {matrices[static_cast<std::size_t>(m)]}, again);
    CHECK(at::equal(bytes, again));
    const auto expected = at::empty({1, rows * columns}, at::kBFloat16);
    codec.decode(one, bytes, expected);
    CHECK(at::equal(whole[m].reshape({1, -1}), expected));
  }
  // The last third of its rows, and the second third of its columns.
  constexpr std::int64_t third = 16384, begin = rows * columns - third;
  CHECK(at::equal(decoded({2, third, true}, begin, matrices), whole.reshape({2, -1}).narrow(1, begin, third)));
  CHECK(at::equal(decoded({2, rows * 128, true, 128, columns, 128}, 0, matrices),
                  whole.narrow(2, 128, 128).reshape({2, -1})));
}

// The file: a layer that bitsandbytes 0.50.2 encoded, Linear4bit(320, 64, compress_statistics=True, quant_type="nf4")
// of bfloat16 numbers, a row of them zeros; state_dict() and, as "expected", what its dequantize_4bit makes of it.
TEST_CASE("a matrix that bitsandbytes wrote decodes to its numbers, and is written as it was") {
  const checkpoint::SafetensorsFile file(CAPSTAN_SOURCE_DIR "/tests/plugins/strategies/nf4/bitsandbytes.safetensors");
  const auto tensor = [&](const std::string& name) {
    const auto& info = file.info(name);
    auto out = at::empty(info.shape, checkpoint::torch_dtype(info.dtype));
    file.read(name, layout::Box::whole(info.shape), out);
    return out;
  };
  const layout::Shape shape{64, 320};
  nn::CodedMatrix matrix{"weight", file.path().string(), shape, {}};
  for (const auto& part : codec.file_parts(shape)) matrix.parts[part.end] = tensor("weight" + part.end);
  codec.check_matrix(matrix);
  const nn::Codec::Extent whole{1, std::int64_t{64} * 320};
  CHECK(at::equal(decoded(whole, 0, {matrix}).view(shape), tensor("expected")));

  const auto bytes = at::empty({codec.bytes(whole)}, at::kByte);
  codec.read_matrices(whole, 0, {matrix}, bytes);
  auto again = codec.write_matrix(shape, bytes, at::kBFloat16);
  const auto take_state = [](std::map<std::string, at::Tensor>& parts) {
    const auto text = parts.extract(".quant_state.bitsandbytes__nf4").mapped().contiguous();
    return Json::parse({static_cast<const char*>(text.const_data_ptr()), text.nbytes()});
  };
  CHECK(take_state(again) == take_state(matrix.parts));
  for (const auto& [end, written] : again) CHECK(at::equal(written, matrix.parts.at(end)));
}

TEST_CASE("what another kind of quantization wrote is refused by file and tensor") {
  const std::string begin = "a.safetensors: tensor 'h.weight' cannot be taken as it is: ";
  CHECK(fault([](auto&) {}) == "");
  CHECK_THAT(fault([](auto& m) {  // bitsandbytes' default
               m.parts.erase(".nested_absmax");
               m.parts.at(".absmax") = m.parts.at(".absmax").to(at::kFloat);
             }),
             Contains(begin) && Contains("it is without double quantization"));
  CHECK_THAT(fault([](auto& m) { set_state(m, "blocksize", 128); }),
             Contains(begin) && Contains("blocksize is 128, and strategy.nf4 has 64"));
  CHECK_THAT(fault([](auto& m) { set_state(m, "nested_blocksize", 64); }),
             Contains(begin) && Contains("nested_blocksize is 64"));
  CHECK_THAT(fault([](auto& m) {
               set_state(m, "shape", {rows, columns / 2});
             }),
             Contains(begin) && Contains("shape is [128,192]"));
  CHECK_THAT(fault([](auto& m) { set_state(m, "quant_type", "fp4"); }),
             Contains(begin) && Contains("quant_type is \"fp4\""));
  CHECK_THAT(fault([](auto& m) { set_state(m, "nested_offset", "a"); }),
             Contains(begin) && Contains("no number nested_offset"));
  CHECK_THAT(fault([](auto& m) { set_state(m, "nested_offset", 1e300); }),
             Contains(begin) && Contains("no number nested_offset"));
  CHECK_THAT(fault([](auto& m) { m.parts.at(".nested_absmax")[1] = std::nan(""); }),
             Contains(begin) && Contains("'h.weight.nested_absmax' has a number below 0 or one that is not finite"));
  CHECK_THAT(fault([](auto& m) { set_state(m, "shape", std::string(1000, 'x') + "\033[2K"); }),
             Contains(begin) && Contains("shape is \"xxx") && Contains("xxx, and strategy.nf4 has [128,384]"));
  CHECK_THAT(fault([](auto& m) { m.parts.at(".quant_map")[3] = 0.5; }), Contains(begin) && Contains("other numbers"));
  CHECK_THAT(fault([](auto& m) { m.parts.at("") = m.parts.at("").narrow(0, 0, 100); }),
             Contains(begin) && Contains("has 100 Byte, and a matrix [128, 384] needs 24576 Byte"));
  const auto with_state = [&](const std::string& text) {
    return fault([&](nn::CodedMatrix& m) {
      auto& bytes = m.parts.at(".quant_state.bitsandbytes__nf4");
      bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
      std::copy(text.begin(), text.end(), bytes.template data_ptr<std::uint8_t>());
    });
  };
  for (const auto& text : {std::string(), std::string(320, ' '), std::string("[]"), std::string("{\"shape\": 1e999}"),
                           "{\"shape\":" + std::string(20000, '[') + std::string(20000, ']') + "}",
                           "{\"shape\":\"" + std::string(100000, 'x') + "\"}"})
    CHECK_THAT(with_state(text), Contains(begin) && Contains("is not JSON"));
}

TEST_CASE("a folder in 4 bits trains as the one that it was made of, on other layouts too") {
  const Scratch scratch;
  const auto config = family_config({"llama", sizes});
  write_model(config, {}, scratch / "plain", "");
  write_model(config + lora + nf4_table, scratch / "plain", scratch / "packed", "bnb-nf4");
  write_model(config + lora + nf4_table, scratch / "packed", scratch / "again", "bnb-nf4");
  CHECK(read_file(scratch / "packed/model.safetensors") == read_file(scratch / "again/model.safetensors"));
  const auto json = Json::parse(read_file(scratch / "packed/config.json"));
  CHECK(json.at("quantization_config").at("bnb_4bit_use_double_quant") == true);
  CHECK(json.at("quantization_config").at("llm_int8_skip_modules") == Json({"model.embed_tokens", "lm_head"}));
  const auto plain = run(lora + nf4_table, scratch / "plain");
  CHECK(differences(run(lora + nf4_table, scratch / "packed"), plain, 0) == "");
  const std::string fsdp = "[strategy.fsdp]\n", split = "[strategy.tensor_parallel]\nsize = 2\n";
  for (const auto& [world, layout] : {std::pair{2, fsdp}, {2, split}, {3, fsdp}, {6, fsdp}, {6, split + fsdp}}) {
    INFO(world << layout);
    const auto tables = cat(lora, nf4_table, layout);
    CHECK(differences(run(tables, scratch / "packed", world), plain, 1e-10) == "");
  }
  // What no strategy keeps is decoded.
  CHECK(error_of(lora, scratch / "packed") == "");
  CHECK(error_of(lora + nf4_table + "targets = [\"linear_fc1\"]\n", scratch / "packed") == "");
}

TEST_CASE("a folder in 4 bits that lacks a part, has too much or packs otherwise is refused by name") {
  const Scratch scratch;
  const auto config = family_config({"llama", sizes});
  write_model(config, {}, scratch / "plain", "");
  write_model(config + lora + nf4_table, scratch / "plain", scratch / "packed", "bnb-nf4");
  const std::string weight = "model.layers.1.mlp.up_proj.weight";
  const auto refused = [&](const std::function<void(std::map<std::string, at::Tensor>&)>& change) {
    const auto file = scratch / "packed/model.safetensors", other = scratch / "changed/model.safetensors";
    fs::remove_all(scratch / "changed");
    fs::copy(scratch / "packed", scratch / "changed");
    std::map<std::string, at::Tensor> tensors;
    const checkpoint::SafetensorsFile packed(file);
    for (const auto& [name, info] : packed.tensors()) {
      tensors[name] = at::empty(info.shape, checkpoint::torch_dtype(info.dtype));
      packed.read(name, layout::Box::whole(info.shape), tensors[name]);
    }
    change(tensors);
    std::vector<checkpoint::NamedTensor> named;
    for (const auto& [name, value] : tensors) named.push_back({name, value});
    checkpoint::write_safetensors(other, named);
    return error_of(lora + nf4_table, scratch / "changed");
  };
  CHECK(refused([](auto&) {}) == "");
  for (const std::string end : {".absmax", ".nested_absmax", ".quant_map", ".quant_state.bitsandbytes__nf4"}) {
    const std::string part = weight + end;
    CHECK_THAT(refused([&](auto& tensors) { tensors.erase(part); }), Contains(cat("it has no '", part, "'")));
  }
  CHECK_THAT(refused([&](auto& tensors) { tensors.erase(weight); }),
             Contains("1 tensor missing") && Contains("up_proj.weight"));
  CHECK_THAT(refused([&](auto& tensors) {
               tensors[weight] = tensors[weight].view({-1}).view(at::kBFloat16);  // bnb_4bit_quant_storage
             }),
             Contains("'" + weight + "' has 8192 BFloat16, and a matrix [128, 256] needs 16384 Byte"));
  const std::string beyond = "model.layers.7.mlp.up_proj.weight";
  CHECK_THAT(refused([&](auto& tensors) { tensors[beyond + ".absmax"] = at::zeros({3}, at::kByte); }),
             Contains("1 tensor that the model does not have: " + beyond + ".absmax"));
  CHECK_THAT(refused([&](auto& tensors) {
               for (const std::string end : {"", ".absmax", ".nested_absmax"})
                 tensors[beyond + end] = tensors[weight + end];
             }),
             Contains("3 tensors that the model does not have: " + beyond));
}

}  // namespace bnb_test
