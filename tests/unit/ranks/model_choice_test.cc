// Which model a name on the command line means.
#include <capstan/plugin/host.h>
#include <capstan/ranks/model_session.h>
#include <capstan_catch.h>

#include <filesystem>

#include "checkpoint/scratch.h"
#include "launch/launch.h"
#include "support/errors.h"

namespace model_choice_test {

using namespace capstan;
using test::error_of;

namespace {

ranks::ModelChoice chosen(const std::string& name, const std::string& hub = {}) {
  plugin::Host host;
  return ranks::choose_model(name, {"generate", "", {}, launch::environment({{"HF_HUB_CACHE", hub}}), host});
}

}  // namespace

TEST_CASE("a folder is a Hugging Face model, a run, or a run's checkpoint") {
  const Scratch scratch;
  const auto path = scratch.path().string();
  scratch.write("hf/config.json", R"({"model_type": "mistral"})");
  const auto model = chosen(scratch / "hf");
  CHECK(model.config.empty());
  CHECK(model.weights.empty());
  CHECK(model.overrides ==
        std::vector<std::string>{"model.plugin=llama", "model.path=\"" + path + "/hf\"", "run.name=\"hf\""});
  scratch.write("hub/models--org--name/snapshots/c0ffee/config.json", R"({"model_type": "gpt2"})");
  scratch.write("hub/models--org--name/snapshots/c0ffee/model.safetensors", "");
  const auto cached = chosen("org/name", scratch / "hub");
  CHECK(cached.overrides ==
        std::vector<std::string>{"model.plugin=gpt",
                                 "model.path=\"" + path + "/hub/models--org--name/snapshots/c0ffee\"",
                                 "run.name=\"name\""});
  CHECK_THAT(error_of([&] { chosen("org/other", scratch / "hub"); }),
             Contains("there is no folder ") && Contains("HF_HUB_CACHE=" + path + "/hub hf download org/other"));
  scratch.write("run/config.toml", "");
  scratch.write("run/weights/manifest.json", "{}");
  scratch.write("run/checkpoints/step-1/manifest.json", "{}");
  const auto run = chosen(scratch / "run/");
  CHECK(run.config == path + "/run/config.toml");
  CHECK(run.weights == path + "/run/weights");
  CHECK(run.overrides.empty());
  const auto checkpoint = chosen(scratch / "run/checkpoints/step-1/");
  CHECK(checkpoint.config == run.config);
  CHECK(checkpoint.run == path + "/run");
  CHECK(checkpoint.weights == path + "/run/checkpoints/step-1");
}

TEST_CASE("folders that are no model say what one is") {
  const Scratch scratch;
  const auto fault = [&](const std::string& name) { return error_of([&] { chosen(scratch / name); }); };
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
                              "run's folder, next to its config.toml");
}

}  // namespace model_choice_test
