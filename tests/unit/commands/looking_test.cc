// What `data` prints of a sample, what `generate` reads, and which model a folder means.
#include <capstan_catch.h>

#include <sstream>

#include "commands/data_command.h"
#include "commands/generate_command.h"
#include "commands/model_choice.h"
#include "support/errors.h"
#include "support/tokenizer_files.h"
#include "tokenizer/byte_tokenizer.h"

using namespace capstan;
using test::error_of;

namespace {

data::Sample sample(const tokenizer::Tokenizer& tokenizer, const std::string& prompt, const std::string& answer) {
  data::Sample made;
  made.tokens = tokenizer.prefix_ids();
  const auto append = [&](const std::vector<std::int64_t>& ids) {
    made.tokens.insert(made.tokens.end(), ids.begin(), ids.end());
  };
  append(tokenizer.encode(prompt));
  made.prompt_length = static_cast<std::int64_t>(made.tokens.size());
  append(tokenizer.encode(answer));
  if (tokenizer.end_id() >= 0) made.tokens.push_back(tokenizer.end_id());
  made.is_target.assign(made.tokens.size(), true);
  std::fill_n(made.is_target.begin(), made.prompt_length, false);
  return made;
}

// As it is printed where nothing is dimmed.
std::string text_of(const data::Sample& sample, const tokenizer::Tokenizer& tokenizer) {
  std::string text;
  for (const auto& part : commands::sample_parts(sample, tokenizer))
    text += part.bears_loss ? part.text : "⟦" + part.text + "⟧";
  return text;
}

std::vector<std::string> prompts(const std::string& input, bool json) {
  std::istringstream in(input);
  std::vector<std::string> texts;
  for (const auto& line : commands::read_prompts(in, json)) texts.push_back(line.text + "|" + line.id);
  return texts;
}

}  // namespace

TEST_CASE("what bears no loss is marked") {
  const tokenizer::ByteTokenizer tokenizer;
  const auto one = sample(tokenizer, "What?", " That\u00e9");
  const auto end = "[id " + std::to_string(tokenizer.end_id()) + "]";
  CHECK(text_of(one, tokenizer) == "⟦What?⟧ That\u00e9" + end);
  auto several = one;
  several.is_target[6] = false;
  CHECK(text_of(several, tokenizer) == "⟦What?⟧ ⟦T⟧hat\u00e9" + end);
  // Nothing predicts the first token, whatever is asked for.
  auto whole = one;
  whole.is_target.assign(whole.tokens.size(), true);
  CHECK(text_of(whole, tokenizer) == "⟦W⟧hat? That\u00e9" + end);
  CHECK(text_of({}, tokenizer).empty());
}

TEST_CASE("a tokenizer whose texts lose their first space keeps those inside of a sample") {
  const Scratch scratch;
  write_file(scratch / "tokenizer.json", sentencepiece_file().dump());
  const auto tokenizer = open_tokenizer(scratch.path().string());
  auto one = sample(*tokenizer, "ab", "");
  const auto more = tokenizer->encode("ab");  // with its space
  one.tokens.insert(one.tokens.end(), more.begin(), more.end());
  one.is_target.resize(one.tokens.size(), true);
  CHECK_THAT(text_of(one, *tokenizer), Contains("⟦[id 1]ab⟧") && Contains(" ab"));
}

TEST_CASE("prompts come a line each, or as JSON lines") {
  CHECK(prompts("one\n\n  two \n", false) == std::vector<std::string>{"one|", "  two |"});
  CHECK(prompts("{\"prompt\": \"a\\nb\"}\n{\"prompt\": \"c\", \"id\": \"x\"}\n{\"prompt\": \"d\", \"id\": 3}\n",
                true) == std::vector<std::string>{"a\nb|", "c|\"x\"", "d|3"});
  for (const std::string line : {"a", "{\"text\": \"a\"}", "{\"prompt\": 1}"}) {
    CHECK(error_of([&] { prompts("{\"prompt\": \"a\"}\n" + line, true); }) ==
          "line 2 of the input is not a JSON object with a prompt\n    fix: write one object a line, such as "
          "{\"prompt\": "
          "\"The capital of France is\"}");
  }
}

TEST_CASE("a folder is a Hugging Face model, a run, or a run's checkpoint") {
  const Scratch scratch;
  plugin::Host host;
  const auto path = scratch.path().string();
  scratch.write("hf/config.json", R"({"model_type": "mistral"})");
  const auto model = commands::choose_model(scratch / "hf", {}, host);
  CHECK(model.config.empty());
  CHECK(model.weights.empty());
  CHECK(model.overrides ==
        std::vector<std::string>{"model.plugin=llama", "model.path=\"" + path + "/hf\"", "run.name=\"hf\""});
  scratch.write("hub/models--org--name/snapshots/c0ffee/config.json", R"({"model_type": "gpt2"})");
  scratch.write("hub/models--org--name/snapshots/c0ffee/model.safetensors", "");
  const auto cached = commands::choose_model("org/name", {scratch / "hub", "HF_HOME=/s"}, host);
  CHECK(cached.overrides ==
        std::vector<std::string>{"model.plugin=gpt",
                                 "model.path=\"" + path + "/hub/models--org--name/snapshots/c0ffee\"",
                                 "run.name=\"name\""});
  CHECK_THAT(error_of([&] {
               commands::choose_model("org/other", {scratch / "hub", "HF_HOME=/s"}, host);
             }),
             Contains("there is no folder ") && Contains("HF_HOME=/s hf download org/other"));
  scratch.write("run/config.toml", "");
  scratch.write("run/weights/manifest.json", "{}");
  scratch.write("run/checkpoints/step-1/manifest.json", "{}");
  const auto run = commands::choose_model(scratch / "run/", {}, host);
  CHECK(run.config == path + "/run/config.toml");
  CHECK(run.weights == path + "/run/weights");
  CHECK(run.overrides.empty());
  const auto checkpoint = commands::choose_model(scratch / "run/checkpoints/step-1/", {}, host);
  CHECK(checkpoint.config == run.config);
  CHECK(checkpoint.run == path + "/run");
  CHECK(checkpoint.weights == path + "/run/checkpoints/step-1");
}

TEST_CASE("folders that are no model say what one is") {
  const Scratch scratch;
  plugin::Host host;
  const auto fault = [&](const std::string& name) {
    return error_of([&] { commands::choose_model(scratch / name, {}, host); });
  };
  const auto at = [&](const std::string& name) { return (scratch / name).string() + ": "; };
  const std::string forms =
      "\n    fix: name a Hugging Face model folder (config.json), a run's folder (config.toml) or one of its "
      "checkpoints";
  CHECK(fault("none") ==
        "there is no folder " + (scratch / "none").string() +
            "\n    fix: name a Hugging Face model folder, a run's folder, one of its checkpoints, or a "
            "model of the hub as ORGANISATION/NAME");
  std::filesystem::create_directory(scratch / "empty");
  CHECK(fault("empty") == at("empty") + "this is no model's folder" + forms);
  scratch.write("hf/config.json", R"({"model_type": "mixtrall"})");
  CHECK(fault("hf") == at("hf/config.json") +
                           "no model plugin computes models of type 'mixtrall'\n    fix: take another model; `capstan "
                           "plugins` lists the plugins");
  scratch.write("hf/config.json", "{}");
  CHECK_THAT(fault("hf"), Contains("it names no model_type"));
  scratch.write("hf/config.json", "{");
  CHECK_THAT(fault("hf"), Contains("it is not JSON\n") && Contains("download the model's folder again"));
  scratch.write("run/config.toml", "");
  CHECK(fault("run") == at("run") +
                            "this folder holds no weights\n    fix: name a run's folder that has weights/ or "
                            "checkpoints/, a folder with manifest.json, or a Hugging Face model folder with "
                            "model.safetensors");
  scratch.write("alone/manifest.json", "{}");
  CHECK(fault("alone") == at("alone") +
                              "these are weights without the run that they are of\n    fix: leave them in the "
                              "run's folder, beside its config.toml");
}
