// Plugins that throw while a configuration is judged: the message says the plugin, and in which phase it was.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "ranks/judged.h"
#include "support/thrower.h"

namespace thrown_test {

using namespace judged;
using Place = test::ThrowingPlace;

namespace {

std::string said(const Place& place) {
  const test::Folder work;
  const auto plugin = fixture(capstan::cat("run_fixtures/", place.kind), "thrower");
  const auto [changes, more] = test::thrower_changes(place, plugin, 0);
  return refusal(work.write("a.toml", small_config(changes, more)));
}

}  // namespace

TEST_CASE("a plugin that throws while it is judged is named with its phase") {
  for (const auto& place : std::vector<Place>{{"strategy", "make", "construction"},
                                              {"strategy", "mesh", "mesh"},
                                              {"strategy", "claim", "claim"},
                                              {"strategy", "shard", "shard"},
                                              {"strategy", "check", "check"},
                                              {"strategy", "structure", "structure"},
                                              {"strategy", "place", "placement of unit blocks.1"},
                                              {"optimizer", "make", "construction"},
                                              {"optimizer", "states", "states of "},
                                              {"objective", "make", "construction"},
                                              {"objective", "check", "check"},
                                              {"objective", "plan", "plan"},
                                              {"model", "make", "construction"},
                                              {"model", "check", "check"},
                                              {"model", "facts", "facts"},
                                              {"model", "build", "build"},
                                              {"data", "make", "construction"},
                                              {"data", "check", "check"},
                                              {"data", "max_length", "max_length"},
                                              {"data", "open", "open"},
                                              {"data", "size", "size"},
                                              {"tokenizer", "make", "construction"},
                                              {"tokenizer", "open", "open"},
                                              {"tokenizer", "files", "files"},
                                              {"tokenizer", "vocab_size", "vocab_size"},
                                              {"monitor", "make", "construction"}}) {
    INFO(place.kind << " " << place.place);
    CHECK_THAT(said(place),
               Contains(capstan::cat("no luck in ", place.place, "\n    fix: try again\n    while plugin 'thrower'")) &&
                   Contains(capstan::cat(" was in phase ", place.said)));
  }
  for (const char* kind : {"strategy", "model", "optimizer", "objective", "data", "tokenizer", "monitor"})
    CHECK(said({kind, "", ""}).empty());
}

}  // namespace thrown_test
