// A key that a config.json does not have means what transformers 5 takes for the family, or the folder is refused
// (missing_keys.py).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan_catch.h>

#include <filesystem>
#include <set>

#include "parity/models.h"
#include "parity/reference.h"
#include "step/session.h"

namespace missing_keys_test {

using namespace capstan;

namespace {

namespace fs = std::filesystem;

std::string plugin_of(const std::string& name) {
  for (const auto& one : parity::cases) {
    if (one.name == name) return one.plugin;
  }
  throw Error("no such case: " + name);
}

// What the folder computes; nothing where it is refused.
std::optional<at::Tensor> logits_in(const std::string& plugin, const fs::path& folder, const at::Tensor& ids) {
  std::optional<at::Tensor> logits;
  try {
    const auto job = parity::prepare(plugin, folder, "fp32");
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      auto session = step::materialise(job, communicator);
      logits = parity::logits_of(session, ids);
    });
  } catch (const Error& error) {
    UNSCOPED_INFO(error.what());
    CHECK_FALSE(error.diagnostics().front().fix.empty());
  }
  return logits;
}

}  // namespace

TEST_CASE("a key left out of a config.json is transformers' default, or the folder is refused", "[transformers5]") {
  at::set_num_threads(1);
  const Scratch made;
  run_python("missing_keys.py", {made.path()});
  // transformers gives a tied model the head that its file has besides; Capstan refuses that file. transformers takes
  // 4096 for Phi-3's unscaled length, whatever its table says; Capstan refuses two that differ. Whether SmolLM 3's
  // window acts where it is not in use but blocks are said to have it depends on transformers' kernel. A dynamic
  // scaling without HunYuan's alpha changes with each text's length.
  const std::set<std::string> refused{"bloom-6-heads/tie_word_embeddings", "smollm3-window/tie_word_embeddings",
                                      "smollm3-window/use_sliding_window", "phi3-long/original_max_position_embeddings",
                                      "ministral3-window/rope_parameters", "hunyuan-dynamic/rope_parameters.alpha"};
  int equal = 0;
  for (const auto& family : fs::directory_iterator(made.path())) {
    const auto name = family.path().filename().string();
    for (const auto& folder : fs::directory_iterator(family.path())) {
      if (!folder.is_directory()) continue;
      const auto which = cat(name, "/", folder.path().filename().string());
      INFO(which);
      const auto file = folder.path() / "logits.safetensors";
      const bool is_known = fs::exists(file) && !refused.contains(which);
      const auto reference = fs::exists(file) ? parity::load(file) : parity::Tensors();
      const auto ids = is_known ? reference.at("ids") : at::zeros({1, 4}, at::kLong);
      const auto logits = logits_in(plugin_of(name), folder.path(), ids);
      CHECK(logits.has_value() == is_known);
      if (!logits || !is_known) continue;
      const auto& expected = reference.at("logits");
      // What float32 differs by in another order of sums, as in models_test.cc.
      CHECK((*logits - expected).abs().max().item<double>() <= 1e-5 * expected.abs().max().item<double>());
      ++equal;
    }
  }
  CHECK(equal > 100);
}

}  // namespace missing_keys_test
