// What `generate` reads, and which model a folder means.
#include <capstan_catch.h>

#include <sstream>

#include "checkpoint/scratch.h"
#include "commands/generate_command.h"
#include "commands/model_choice.h"
#include "support/errors.h"

using namespace capstan;
using test::error_of;

namespace {

std::vector<std::string> prompts(const std::string& input, bool json) {
  std::istringstream in(input);
  std::vector<std::string> texts;
  for (const auto& line : commands::read_prompts(in, json)) texts.push_back(line.text + "|" + line.id);
  return texts;
}

}  // namespace

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
