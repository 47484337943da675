// The formats that Capstan reads, with small files that are right.
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan_places.h>

#include "config/document.h"
#include "data/token_cache.h"
#include "fuzz/judge.h"
#include "hf/config_file.h"
#include "hf/safetensors_folder.h"
#include "plugin/abi.h"
#include "plugins/commands/import-deepspeed/translate.h"
#include "plugins/data/squad/squad_file.h"
#include "plugins/libraries/records/mapped_lines.h"
#include "plugins/libraries/records/record.h"
#include "plugins/strategies/lora/peft.h"
#include "record/manifest.h"
#include "setup/configuration.h"
#include "support/folder.h"
#include "support/tokenizer_files.h"

namespace fuzz {
namespace {

using namespace capstan;
namespace fs = std::filesystem;

const std::vector<std::string> json_words{"null",
                                          "[]",
                                          "{}",
                                          "1e999",
                                          "-1",
                                          "0",
                                          "9223372036854775807",
                                          "18446744073709551615",
                                          "1e-400",
                                          "\"\"",
                                          "\"a\\u0000b\"",
                                          "\"\\ud800\"",
                                          "\"\033[31m\"",
                                          "\"\\u001b[2K\\ncapstan: all checks passed\"",
                                          "true",
                                          "3.5",
                                          "\xff",
                                          "[[[[[[[[",
                                          "\"../../x\"",
                                          "\"/etc/passwd\"",
                                          ",",
                                          ":",
                                          "\"",
                                          "{\"a\":",
                                          "1234567890123"};

std::string little_endian(std::uint64_t value) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i) & 0xFFU);
  return out;
}

// Two tensors, F32 [2, 3] and BF16 [4].
std::string tensor_file(const std::string& first = "a.weight", const std::string& second = "b") {
  const auto header =
      cat(R"({"__metadata__":{"format":"pt"},")", first, R"(":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},")",
          second, R"(":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})");
  return little_endian(header.size()) + header + std::string(32, 'x');
}

void read_tensors(const hf::SafetensorsFolder& folder) {
  for (const auto& name : folder.names()) {
    const auto& info = folder.find(name)->info(name);
    const auto out = at::empty(info.shape, checkpoint::torch_dtype(info.dtype));
    folder.find(name)->read(name, {layout::Shape(info.shape.size(), 0), info.shape}, out);
  }
}

struct LlamaLike : decoder::RotaryOptions {
  static void describe(config::OptionTable<LlamaLike>& t) {
    decoder::describe_rotary_sizes(t, "the feed-forward layer");
    decoder::describe_rotary_scaling(t);
    decoder::describe_rotary_rest(t);
  }
};

void read_config_json(const fs::path& folder) {
  Diagnostics faults;
  plugin::Registration like;
  like.schema = config::Options<LlamaLike>::schema();
  const auto section = hf::with_model_file({"model", {}, {}}, {folder.string(), "a.toml:1"}, like).section;
  const config::Options<LlamaLike> options(section, faults);
  if (faults.empty()) {
    decoder::check_rotary(options, faults);
    decoder::check_rotary_scaling(options, faults);
  }
  faults.throw_if_any();
}

void read_tokenizer(const fs::path& folder) {
  const auto made = open_tokenizer((folder / "tokenizer.json").string());
  const auto ids = made->encode("ab abc d\xff\n  \xe4\xb8\x96");
  (void)made->decode(ids);
}

void read_configuration(const fs::path& folder) {
  Diagnostics faults;
  setup::JobRequest request;
  request.file = (folder / "a.toml").string();
  (void)setup::read_configuration(request, faults);
  faults.throw_if_any();
}

class Numbers final : public data::DataSource {
 public:
  std::int64_t size() const override { return 3; }
  data::Sample get(std::int64_t index) const override {
    data::Sample sample;
    sample.tokens.assign(static_cast<std::size_t>(index) + 2, index);
    sample.is_target.assign(sample.tokens.size(), true);
    sample.id = cat("q", index);
    sample.references = {"an answer"};
    return sample;
  }
};

data::TokenCache cache_in(const fs::path& folder) { return {folder / "a.tokens", "the key"}; }

// A damaged cache is made again, and then has what it should.
void read_cache(const fs::path& folder) {
  const auto source = std::make_shared<Numbers>();
  try {
    const auto opened = data::open_cached(source, cache_in(folder));
    for (std::int64_t i = 0; i < opened->size(); ++i) {
      if (opened->get(i).tokens != source->get(i).tokens) throw std::logic_error("other tokens than were written");
    }
  } catch (const Error&) {
    data::TokenCacheBuilder builder(source, cache_in(folder));
    if (!builder.advance(std::chrono::seconds(5))) throw std::logic_error("the cache was not made again");
    data::open_cached(source, cache_in(folder))->get(2);
    throw;
  }
}

std::string cache_file() {
  const test::Folder folder;
  data::TokenCacheBuilder builder(std::make_shared<Numbers>(), cache_in(folder.path()));
  builder.advance(std::chrono::seconds(5));
  return read_file(folder / "a.tokens");
}

std::string manifest_file() {
  checkpoint::Meta meta;
  meta.step = 7;
  meta.world_size = 1;
  meta.mesh = "dp 1";
  meta.date = "2026-01-01";
  meta.version = version();
  meta.config = "[run]\n";
  meta.metrics = {{"loss", 2.5}};
  meta.sections = {{"cursor", R"({"seed": 3})"}};
  checkpoint::Contents contents;
  contents.files = {{"rank-00000.safetensors", 100}};
  checkpoint::TensorEntry tensor;
  tensor.shape = {2, 3};
  tensor.boxes = {{{{0, 0}, {2, 3}}, "rank-00000.safetensors", {"0123456789abcdef"}}};
  contents.tensors = {{"model/a", tensor}};
  return checkpoint::manifest_text({meta, contents});
}

// The seal would refuse nearly all inputs; half of them get a new one, to reach what is under it.
void read_manifest(const fs::path& folder) {
  const auto file = folder / "manifest.json";
  const auto text = read_file(file);
  if (text.size() % 2 == 0) write_file(file, checkpoint::sealed(text));
  (void)checkpoint::parse_manifest(file);
}

void read_lines(const fs::path& folder) {
  const jsonl::MappedLines file((folder / "a.jsonl").string());
  for (std::int64_t i = 0; i < file.size(); ++i) jsonl::read_record(file, i, {"{role}: {content}\n", {}, {}, {}});
}

const std::vector<std::string> toml_words{"\"",
                                          "'''",
                                          "[[run]]",
                                          "[a.b.c]",
                                          "a.b.c = 1\n",
                                          "= ",
                                          "1e999",
                                          "inf",
                                          "nan",
                                          "[",
                                          "{",
                                          "\"\\u0000\"",
                                          "\"\\u001b[31m\"",
                                          "1979-05-27",
                                          "0x7fffffffffffffff",
                                          "9223372036854775807",
                                          "-1",
                                          "true",
                                          "[1, \"a\"]",
                                          "\033[2K",
                                          "\xff",
                                          "\n",
                                          "extends = \"a.toml\"\n",
                                          "extends = [\"b\", \"c\"]\n",
                                          "dir = \"../../../x\"\n"};

std::string plugin_file() { return read_file(CAPSTAN_BINARY_DIR "/tests/fixtures/monitor/good.so"); }

const char* const llama = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 261,
 "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
 "head_dim": 6, "rms_norm_eps": 1e-5, "max_position_embeddings": 128, "tie_word_embeddings": false, "hidden_act": "silu",
 "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
 "original_max_position_embeddings": 64}, "rope_theta": 500000.0, "torch_dtype": "bfloat16"})";

const char* const squad =
    R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "Ann is here.", "qas": [
 {"id": "1", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}]},
 {"id": "2", "question": "Where?", "answers": [{"text": "here", "answer_start": 7}]}]}]}]})";

const char* const lines = R"({"prompt": "Who?", "completion": "Ann", "id": 7}
{"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ann"}]}
{"text": "a text of its own"}
)";

const char* const configuration = R"([run]
name = "a"
seed = 3
device = "cpu"
dir = "runs"
[model]
plugin = "gpt"
vocab_size = 261
[data]
plugin = "squad"
train = "train.json"
[train]
max_steps = 3
global_batch = 4
precision = "fp32"
[optimizer]
lr = 1e-2
betas = [0.9, 0.95]
[strategy.fsdp]
mode = "full_shard"
)";

const char* const adapter = R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"],
 "use_rslora": false, "bias": "none", "task_type": "CAUSAL_LM", "alpha_pattern": {}, "use_dora": false})";

const char* const deepspeed = R"({"train_batch_size": 8, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
 "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-4, "warmup_num_steps": 10}},
 "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e8,
 "offload_optimizer": {"device": "cpu", "pin_memory": true}}})";

void read_deepspeed(const fs::path& folder) {
  const auto file = folder / "ds.json";
  (void)import_deepspeed::translate(file.string(), read_file(file));
}

void read_adapter(const fs::path& folder) { const lora::PeftSource source(folder, {}, {}); }

}  // namespace

std::vector<Target> targets() {
  const auto index =
      R"({"metadata": {"total_size": 32}, "weight_map": {"a.weight": "model-1.safetensors", "b": "model-1.safetensors"}})";
  auto with_binary = json_words;
  with_binary.insert(with_binary.end(), {std::string(8, '\xff'), std::string(8, '\0'), "\"I64\"", "\"F8_E4M3\""});
  return {
      {"safetensors",
       "model.safetensors",
       {tensor_file(), tensor_file("x", "y")},
       with_binary,
       [](const fs::path& folder) { read_tensors(hf::SafetensorsFolder(folder)); }},
      {"index",
       "model.safetensors.index.json",
       {index},
       json_words,
       [](const fs::path& folder) { read_tensors(hf::SafetensorsFolder(folder)); },
       {{"model-1.safetensors", tensor_file()}}},
      {"config-json", "config.json", {llama}, json_words, read_config_json},
      {"tokenizer-json",
       "tokenizer.json",
       {byte_level_file().dump(1), sentencepiece_file().dump(1)},
       json_words,
       read_tokenizer},
      {"squad",
       "a.json",
       {squad},
       json_words,
       [](const fs::path& folder) { squad::read_squad((folder / "a.json").string(), data::Split::train); }},
      {"json-lines", "a.jsonl", {lines}, json_words, read_lines},
      {"toml", "a.toml", {configuration}, toml_words, read_configuration},
      {"manifest", "manifest.json", {manifest_file()}, json_words, read_manifest},
      {"token-cache",
       "a.tokens",
       {cache_file()},
       {std::string(8, '\xff'), std::string(8, '\0'), "\1", "captok"},
       read_cache},
      {"plugin-note",
       "good.so",
       {plugin_file()},
       {std::string(8, '\xff'), std::string(4, '\0'), "Capstan", "sdk=1"},
       [](const fs::path& folder) { plugin::check_abi(folder / "good.so"); }},
      {"deepspeed-json", "ds.json", {deepspeed}, json_words, read_deepspeed},
      {"adapter-config",
       "adapter_config.json",
       {adapter},
       json_words,
       read_adapter,
       {{"adapter_model.safetensors", little_endian(2) + "{}"}}},
  };
}

}  // namespace fuzz
