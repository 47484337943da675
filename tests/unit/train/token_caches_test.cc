#include "train/token_caches.h"

#include <capstan_catch.h>

#include "assembly/tokenizer_job.h"

namespace token_caches_test {

using namespace capstan;
using tokenizer_job::prepared;

TEST_CASE("token caches depend on a tokenizer plugin's options and files") {
  const test::Folder folder;
  const auto cache = [&](const std::string& options) {
    const auto out = prepared(folder, "[tokenizer]\nplugin = \"shift\"\n" + options,
                              "cache = \"" + (folder / "tokens").string() + "\"\n");
    CHECK(out.faults.empty());
    REQUIRE(out.job);
    const auto splits = train::cached_splits(out.job->config, out.job->plugins, out.job->samples);
    REQUIRE(splits.size() == 1);
    return splits.front().cache.file;
  };
  const auto plain = cache("");
  CHECK(cache("") == plain);
  CHECK(cache("first = 4\n") != plain);
  const auto file = folder.write("words.txt", "a b");
  const auto with_file = cache("vocabulary = \"words.txt\"\n");
  CHECK(with_file != plain);
  folder.write("words.txt", "a b c");
  const auto longer = cache("vocabulary = \"words.txt\"\n");
  CHECK(longer != with_file);
  // It has the same size and time, and is yet another file.
  const auto time = std::filesystem::last_write_time(file);
  folder.write("words.txt", "a b d");
  std::filesystem::last_write_time(file, time);
  CHECK(cache("vocabulary = \"words.txt\"\n") != longer);
  folder.write("words.txt", "a b c");
  CHECK(cache("vocabulary = \"words.txt\"\n") == longer);
}

}  // namespace token_caches_test
