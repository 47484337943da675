// model.path: a folder, or an id of the Hugging Face hub whose snapshot is in its cache.
#include <capstan/config/model_path.h>
#include <capstan_catch.h>

#include <map>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"

namespace model_path_test {

using namespace capstan;

namespace {

// The cache and the folder of a configuration.
struct Place {
  Scratch scratch;
  config::HubCache hub{scratch / "hub", "HF_HOME=/s"};

  std::string find(const std::string& written) const {
    const auto absolute = (scratch.path() / "work" / written).lexically_normal().string();
    return config::find_model({written, absolute, "a.toml:3", "model.path"}, hub).string();
  }
  std::string fault(const std::string& written) const {
    return fault_of([&] { find(written); });
  }
  // A model of the cache as a whole download leaves it.
  void write_model(const std::string& snapshot) const {
    scratch.write(snapshot + "/config.json", "{}");
    scratch.write(snapshot + "/model.safetensors", "");
  }
  std::string at(const std::string& name) const { return (scratch / name).string(); }
};

}  // namespace

TEST_CASE("a folder wins over a hub id of the same name") {
  const Place place;
  place.scratch.write("hub/models--org--name/refs/main", "c0ffee");
  place.write_model("hub/models--org--name/snapshots/c0ffee");
  CHECK(place.find("org/name") == place.at("hub/models--org--name/snapshots/c0ffee"));
  place.scratch.write("work/org/name/config.json", "{}");
  CHECK(place.find("org/name") == place.at("work/org/name"));
  CHECK(place.find("./org/name") == place.at("work/org/name"));
}

TEST_CASE("the snapshot is the one that the ref names, else the only one; a revision may be asked for") {
  const Place place;
  const auto snapshots = place.at("hub/models--org--name.v2/snapshots/");
  place.write_model("hub/models--org--name.v2/snapshots/aaa");
  CHECK(place.find("org/name.v2") == snapshots + "aaa");  // downloaded by its hash: there is no ref
  place.write_model("hub/models--org--name.v2/snapshots/bbb");
  CHECK_THAT(place.fault("org/name.v2"), Contains("no model org/name.v2 in the hub's cache"));
  place.scratch.write("hub/models--org--name.v2/refs/main", "bbb\n");
  place.scratch.write("hub/models--org--name.v2/refs/old", "aaa");
  CHECK(place.find("org/name.v2") == snapshots + "bbb");
  CHECK(place.find("org/name.v2@old") == snapshots + "aaa");
  CHECK(place.find("org/name.v2@aaa") == snapshots + "aaa");
  CHECK(place.fault("org/name.v2@new") ==
        "a.toml:3: model.path: there is no folder " + place.at("work/org/name.v2@new") +
            ", and no model org/name.v2 of revision new in the hub's cache " + place.at("hub") +
            "\n    fix: download it where there is a network: HF_HOME=/s hf download org/name.v2 --revision new "
            "--include \"*.[js]*\" (a gated model also needs your token: docs/model-files.md)");
  place.write_model("hub/models--gpt2/snapshots/ccc");
  CHECK(place.find("gpt2") == place.at("hub/models--gpt2/snapshots/ccc"));
}

TEST_CASE("a tokenizer is a path that is there, a word of its own, or a model of the cache") {
  const Place place;
  place.scratch.write("hub/models--org--name/refs/main", "abc");
  place.scratch.write("hub/models--org--name/snapshots/abc/tokenizer.json", "{}");
  const auto find = [&](const std::string& written) {
    const auto absolute = place.at("work/" + written);
    return config::find_tokenizer({written, absolute, "a.toml:3", "data.tokenizer"}, place.hub, {"tokenizer.json"});
  };
  CHECK(find("org/name") == std::filesystem::path(place.at("hub/models--org--name/snapshots/abc")));
  place.scratch.write("work/here/tokenizer.json", "{}");
  for (const char* path : {"here", "here/tokenizer.json", "here/other.json", "../elsewhere/tokenizer.json", "byte"}) {
    INFO(path);
    CHECK_FALSE(find(path));
  }
  CHECK_THAT(fault_of([&] { find("org/other"); }),
             Catch::Matchers::StartsWith("a.toml:3: data.tokenizer: there is no folder ") &&
                 Contains("hf download org/other --include"));
  place.scratch.write("work/org/name", "a file wins over the hub");
  CHECK_FALSE(find("org/name"));
}

TEST_CASE("an id that is not in the cache is answered with the command that downloads it") {
  Place place;
  CHECK(place.fault("org/name") ==
        "a.toml:3: model.path: there is no folder " + place.at("work/org/name") +
            ", and no model org/name in the hub's cache " + place.at("hub") +
            "\n    fix: download it where there is a network: HF_HOME=/s hf download org/name --include \"*.[js]*\" (a "
            "gated model also needs your token: docs/model-files.md)");
  place.hub.variable = "HF_HOME=/my cache";
  CHECK_THAT(place.fault("org/name"), Contains("network: HF_HOME='/my cache' hf download org/name"));
  place.scratch.write("hub/models--org--named/refs/main", "c0ffee");
  CHECK_THAT(place.fault("org/name"), Contains("fix: did you mean 'org/named'? Or download it where there"));
  place.hub = {};
  CHECK_THAT(place.fault("org/name"), Contains("in the hub's cache (HOME and HF_HOME are not set)") &&
                                          Contains("network: hf download org/name"));
}

TEST_CASE("a download that was not finished is answered with the command that continues with it") {
  const Place place;
  const std::string snapshot = "hub/models--org--name/snapshots/abc";
  const auto fault = [&](const std::string& file) {
    return "a.toml:3: model.path: org/name is in the hub's cache only in part: " + place.at(snapshot + "/" + file) +
           " is not there\n    fix: download the rest where there is a network: HF_HOME=/s hf download org/name "
           "--include \"*.[js]*\"";
  };
  place.scratch.write("hub/models--org--name/refs/main", "abc");
  place.scratch.write(snapshot + "/tokenizer.json", "{}");
  CHECK(place.fault("org/name") == fault("config.json"));
  place.scratch.write(snapshot + "/config.json", "{}");
  CHECK(place.fault("org/name") == fault("model.safetensors"));
  place.scratch.write(snapshot + "/model.safetensors.index.json",
                      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  place.scratch.write(snapshot + "/model-1.safetensors", "");
  CHECK(place.fault("org/name") == fault("model-2.safetensors"));
  place.scratch.write(snapshot + "/model-2.safetensors", "");
  CHECK(place.find("org/name") == place.at(snapshot));
  const auto tokenizer = place.at("hub/models--org--name/snapshots/abc/tokenizer.json");
  std::filesystem::remove(tokenizer);
  CHECK_THAT(fault_of([&] {
               config::find_tokenizer({"org/name", "/none/org/name", "a.toml:4", "data.tokenizer"}, place.hub,
                                      {"tokenizer.json"});
             }),
             Catch::Matchers::StartsWith("a.toml:4: data.tokenizer: org/name is in the hub's cache only in part: " +
                                         tokenizer));
}

TEST_CASE("a path that leads nowhere is answered as a path") {
  const Place place;
  place.scratch.write("work/models/bloom-560m/config.json", "{}");
  const auto none = [&](const std::string& name) {
    return "a.toml:3: model.path: there is no folder " + place.at("work/" + name) + "\n    fix: ";
  };
  // Its folder exists: no hub id.
  CHECK(place.fault("models/bloom-56m") ==
        none("models/bloom-56m") + "did you mean '" + place.at("work/models/bloom-560m") + "'?");
  const std::string form = "name a Hugging Face model folder, or a model of the hub as ORGANISATION/NAME";
  CHECK(place.fault("../models/zzz") ==
        "a.toml:3: model.path: there is no folder " + place.at("models/zzz") + "\n    fix: " + form);
  CHECK(place.fault("a/b/c") == none("a/b/c") + form);
  CHECK(place.fault("bloom") == none("bloom") + form);
  const std::string page = "https://huggingface.co/org/name";
  CHECK_THAT(place.fault(page), Contains("fix: write 'org/name', without the page's address"));
  CHECK(place.fault("~/bloom") == none("~/bloom") + "write the whole path: only a shell knows '~'");
  CHECK(place.fault("models/bloom-560m/config.json") ==
        "a.toml:3: model.path: " + place.at("work/models/bloom-560m/config.json") +
            " is a file\n    fix: name the folder that holds config.json and *.safetensors");
}

TEST_CASE("the hub's cache is where huggingface_hub has it") {
  const auto at = [](const std::map<std::string, std::string>& variables) {
    const auto cache = config::hub_cache([&](const std::string& name) {
      const auto found = variables.find(name);
      return found == variables.end() ? std::optional<std::string>() : found->second;
    });
    return cache.folder.string() + " " + cache.variable;
  };
  CHECK(at({}) == " ");
  CHECK(at({{"HOME", "/h"}}) == "/h/.cache/huggingface/hub ");
  CHECK(at({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}) == "/x/huggingface/hub XDG_CACHE_HOME=/x");
  CHECK(at({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "/s"}}) == "/s/hub HF_HOME=/s");
  CHECK(at({{"HF_HOME", "/s"}, {"HF_HUB_CACHE", "/c"}}) == "/c HF_HUB_CACHE=/c");
}

}  // namespace model_path_test
