#include <capstan/base/files.h>
#include <capstan/tokenizer/open.h>
#include <capstan_catch.h>

#include "support/tokenizer_files.h"

namespace open_test {

using namespace capstan;

TEST_CASE("an unknown tokenizer is refused with the nearest name") {
  CHECK_THROWS_WITH(open_tokenizer("bytes"), "there is no tokenizer 'bytes'\n    fix: did you mean 'byte'?");
  CHECK_THROWS_WITH(open_tokenizer("sentencepiece"), Contains("one of: auto, byte"));
}

TEST_CASE("a file is opened by the one plugin that says so; where several do, or none can be used, all are named") {
  const Scratch folder;
  const Scratch plugins;
  const auto open = [&] {
    plugin::Host host({plugins.path()});
    return tokenizer::open_named("auto", folder.path().string(), host);
  };
  folder.write("tokenizer.json", byte_level_file().dump());
  const auto own = plugin::Host::builtin_folder() / "tokenizer/hf.so";
  const auto opened = open();
  CHECK(opened.library == own.string());
  CHECK(opened.request.file == folder / "tokenizer.json");
  const auto other = plugins.write("tokenizer/other.so", "");
  CHECK(open().library == own.string());  // what cannot be used matters only where nothing else opens the file
  copy_over(own, other);
  CHECK_THROWS_WITH(open(), Contains(own.string() + " and " + other) && Contains("[tokenizer] plugin = \"hf\""));
  plugins.write("tokenizer/hf.so", "no library");
  plugins.write("tokenizer/other.so", "");
  CHECK_THROWS_WITH(open(), Contains("no installed tokenizer plugin opens " + folder.path().string()) &&
                                Contains((plugins / "tokenizer/hf.so").string()) && Contains("other.so: is no shared"));
  plugin::Host host;
  CHECK(tokenizer::file_names(host) == std::vector<std::string>{"tokenizer.json"});
  CHECK(host.registry().all().empty());  // its note says so; nothing was loaded
}

}  // namespace open_test
