// A port that must act and that no forward asks ends the run after its first step, or is refused before it.
#include <ATen/ATen.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <capstan/plugin/host.h>
#include "support/families.h"
#include "support/folder.h"
#include "support/in_stages.h"
#include "support/job.h"

namespace passed_over_test {

using namespace capstan;

namespace {

struct FillingOptions {
  std::string port = "logits";
  static void describe(config::OptionTable<FillingOptions>& t) {
    t.add("port", &FillingOptions::port).choices({"logits", "after", "around"}).doc("which one it fills");
  }
};

// Fills a port that training asks, or one that it does not.
class Filling : public strategy::Strategy {
 public:
  explicit Filling(config::Options<FillingOptions> options) : options_(std::move(options)) {}
  void place(nn::Unit& unit, const strategy::Placement&) override {
    const auto same = [](const at::Tensor& y) { return y; };
    const auto fill = [&](auto& port, const auto& function) {
      port.fill("filling", function);
      port.must_act();
    };
    unit.each<nn::VocabularyHead>([&](nn::VocabularyHead& head) {
      if (options_->port == "logits") fill(head.after_logits, same);
    });
    unit.each<nn::Linear>([&](nn::Linear& linear) {
      if (options_->port == "after") fill(linear.after, same);
    });
    unit.each<nn::Attention>([&](nn::Attention& attention) {
      if (options_->port != "around") return;
      attention.around.fill("filling", [](const auto& core, const auto& q, const auto& k, const auto& v,
                                          const nn::Batch& batch) { return core(q, k, v, batch).tanh(); });
    });
  }

 private:
  config::Options<FillingOptions> options_;
};

plugin::Registration filling() {
  return testing::type<strategy::Strategy, Filling, FillingOptions>("strategy", "filling");
}

std::string table(const std::string& port) { return "[strategy.filling]\nport = \"" + port + "\"\n"; }

std::string refusal(const std::string& tables, int world) {
  try {
    testing::train({.world = world,
                    .config = testing::family_config(testing::families().front()) + tables,
                    .steps = 2,
                    .types = {filling(), testing::in_stages()}});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string passed_over = "'filling' fills port 'after_logits' of layer head/";

}  // namespace

TEST_CASE("a port that must act and is never asked is named on all ranks, wherever its unit is") {
  CHECK_THAT(refusal(table("logits"), 1), Contains(passed_over) && Contains("the model's forward never asks it"));
  CHECK_THAT(refusal(table("logits") + testing::stages_table("two"), 2), Contains(passed_over));
  CHECK_THAT(refusal(table("logits") + "[strategy.fsdp]\n[strategy.recompute]\n", 2), Contains(passed_over));
  CHECK(refusal(table("after"), 1) == "");
  CHECK(refusal(table("after") + testing::stages_table("two") + "[strategy.recompute]\n", 2) == "");
}

TEST_CASE("attention's port for shared columns is refused where no rank shares any") {
  CHECK_THAT(refusal(table("around"), 1), Contains("'filling' fills port 'around' of layer blocks.0/attention") &&
                                              Contains("asked only where ranks share the columns of rows"));
}

TEST_CASE("a dry run shows a port that is passed over, and check refuses it") {
  plugin::Host host;
  host.add(filling());
  const test::Folder folder;
  setup::JobRequest request;
  request.device = "cuda";
  request.activations = true;
  const auto check = [&](const std::string& port) {
    request.file = folder.write("run.toml", testing::family_config(testing::families().front()) +
                                                "[data]\nplugin = \"synthetic\"\n[train]\nmax_steps = 1\n"
                                                "[run]\nhost_memory = 1000\n" +
                                                table(port));
    (void)testing::job_of(request, host);
  };
  CHECK_THROWS_WITH(check("logits"), Contains(passed_over));
  CHECK_NOTHROW(check("after"));
}

}  // namespace passed_over_test
