#include <capstan_catch.h>

#include "cli/hub_cache.h"

using namespace capstan;

TEST_CASE("the hub's cache is where huggingface_hub has it") {
  const auto at = [](std::map<std::string, std::string> variables) {
    const auto cache = cli::hub_cache(launch::environment(std::move(variables)));
    return cache.folder.string() + " " + cache.variable;
  };
  CHECK(at({}) == " ");
  CHECK(at({{"HOME", "/h"}}) == "/h/.cache/huggingface/hub ");
  CHECK(at({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}) == "/x/huggingface/hub XDG_CACHE_HOME=/x");
  CHECK(at({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "/s"}}) == "/s/hub HF_HOME=/s");
  CHECK(at({{"HF_HOME", "/s"}, {"HF_HUB_CACHE", "/c"}}) == "/c HF_HUB_CACHE=/c");
}
