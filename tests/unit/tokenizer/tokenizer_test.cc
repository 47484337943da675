#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/tokenizer/utf8.h>
#include <capstan_catch.h>

#include "support/tokenizer_files.h"

using namespace capstan;
using tokenizer::repair_utf8;

TEST_CASE("the byte tokenizer gives bytes and takes them back") {
  const auto tokenizer = open_tokenizer("byte");
  CHECK(tokenizer->name() == "byte");
  CHECK(tokenizer->vocab_size() == 258);
  CHECK(tokenizer->end_id() == 256);
  CHECK(tokenizer->pad_id() == 257);
  CHECK(tokenizer->encode("aé") == std::vector<std::int64_t>{97, 0xC3, 0xA9});
  CHECK(tokenizer->encode("").empty());
  const std::string text = "Ünïcode, 漢字 and 😀\n";
  CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
}

TEST_CASE("special ids give no text, unknown ids and ill-formed bytes give U+FFFD") {
  const auto tokenizer = open_tokenizer("byte");
  CHECK(tokenizer->decode({97, 256, 257, 98}) == "ab");
  CHECK(tokenizer->decode({97, 258, 98}) == "a\uFFFDb");
  CHECK(tokenizer->decode({97, -1, 49999}) == "a\uFFFD\uFFFD");
  CHECK(tokenizer->decode({97, 0xC3, 98}) == "a\uFFFDb");
}

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

TEST_CASE("each maximal ill-formed part becomes one U+FFFD") {
  CHECK(repair_utf8("plain é 漢 😀") == "plain é 漢 😀");
  CHECK(repair_utf8("\x80\xBF") == "\uFFFD\uFFFD");                      // only continuation bytes
  CHECK(repair_utf8("\xC0\xAF") == "\uFFFD\uFFFD");                      // overlong, two bytes
  CHECK(repair_utf8("\xE0\x80\x80") == "\uFFFD\uFFFD\uFFFD");            // overlong, three bytes
  CHECK(repair_utf8("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");            // a surrogate
  CHECK(repair_utf8("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");  // after U+10FFFF
  CHECK(repair_utf8("\xF1\x80\x80\xE1\x80\xC2") == "\uFFFD\uFFFD\uFFFD");
  CHECK(repair_utf8("a\xF0\x9F\x98") == "a\uFFFD");  // cut off at the end
  CHECK(repair_utf8("\xF0\x9F\x98z") == "\uFFFDz");
  CHECK(repair_utf8("\xF5\xFF") == "\uFFFD\uFFFD");
  CHECK(repair_utf8("\xEF\xBF\xBF\xF4\x8F\xBF\xBF") == "\xEF\xBF\xBF\xF4\x8F\xBF\xBF");  // the last characters
}
