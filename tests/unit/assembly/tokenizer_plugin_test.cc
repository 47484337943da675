// A tokenizer that a plugin brings: what the stages make of [tokenizer].
#include <capstan/base/files.h>
#include <capstan/testing.h>
#include <capstan/tokenizer.h>
#include <capstan_catch.h>

#include "assembly/token_caches.h"
#include "session/job.h"
#include "support/folder.h"
#include "testing/tiny.h"

using namespace capstan;

namespace {

// One id a byte, from `first` on.
class Shifted final : public tokenizer::Tokenizer {
 public:
  explicit Shifted(std::int64_t first) : first_(first) {}
  std::string name() const override { return "shifted"; }
  std::int64_t vocab_size() const override { return 200 + first_; }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    if (text.empty()) throw Error("there is nothing to encode");
    std::vector<std::int64_t> ids;
    for (const char c : text) ids.push_back(first_ + c);
    return ids;
  }
  std::string decode(const std::vector<std::int64_t>& ids) const override {
    std::string text;
    for (const auto id : ids) text += static_cast<char>(id - first_);
    return text;
  }
  std::vector<std::int64_t> prefix_ids() const override { return {7}; }
  std::vector<std::int64_t> suffix_ids() const override { return {8}; }
  std::int64_t end_id() const override { return 1; }
  bool is_end(std::int64_t id) const override { return id < 3; }
  std::int64_t pad_id() const override { return 0; }

 private:
  std::int64_t first_;
};

struct ShiftOptions {
  std::int64_t first = 3;
  std::string vocabulary;
  static void describe(config::OptionTable<ShiftOptions>& t) {
    t.add("first", &ShiftOptions::first).min(0).doc("the first id");
    t.add("vocabulary", &ShiftOptions::vocabulary).path().doc("a file");
  }
};

class Shift final : public tokenizer::Opener {
 public:
  explicit Shift(config::Options<ShiftOptions> options) : options_(std::move(options)) {}
  std::shared_ptr<const tokenizer::Tokenizer> open(const tokenizer::TokenizerRequest& request) const override {
    CHECK(request.model_folder.empty());
    if (options_->first == 9) return nullptr;
    if (options_->first == 8) throw Error("the vocabulary is empty", "fill it");
    return std::make_shared<const Shifted>(options_->first);
  }
  std::vector<std::filesystem::path> files(const tokenizer::TokenizerRequest&) const override {
    if (options_->vocabulary.empty()) return {};
    return {options_->vocabulary};
  }

 private:
  config::Options<ShiftOptions> options_;
};

struct Prepared {
  std::optional<session::Job> job;
  std::vector<std::string> faults;
};

Prepared prepared(const test::Folder& folder, const std::string& tokenizer, const std::string& data = "") {
  static const std::unique_ptr<plugin::Host> host = [] {
    auto made = std::make_unique<plugin::Host>();
    made->add(testing::tiny_model());
    made->add(testing::tiny_data());
    made->add(testing::type<tokenizer::Opener, Shift, ShiftOptions>("tokenizer", "shift"));
    return made;
  }();
  setup::JobRequest request;
  request.file =
      folder.write("a.toml", "[model]\nplugin = \"tiny\"\n[data]\nplugin = \"tiny\"\n" + data +
                                 "[train]\nmax_steps = 2\nglobal_batch = 4\n[run]\nhost_memory = 1000\n" + tokenizer);
  Diagnostics faults;
  Prepared out{session::prepare(request, *host, faults), {}};
  for (const auto& fault : faults.list()) out.faults.push_back(fault.text());
  return out;
}

std::string only_fault(const Prepared& prepared) {
  REQUIRE(prepared.faults.size() == 1);
  CHECK_FALSE(prepared.job);
  return prepared.faults.front();
}

}  // namespace

TEST_CASE("[tokenizer] names a plugin, whose tokenizer a run uses") {
  const test::Folder folder;
  const auto out = prepared(folder, "[tokenizer]\nplugin = \"shift\"\nfirst = 5\n");
  CHECK(out.faults.empty());
  REQUIRE(out.job);
  const auto& tokenizer = *out.job->samples.tokenizer.object;
  using Ids = std::vector<std::int64_t>;
  CHECK(tokenizer.name() == "shifted");
  CHECK(tokenizer.vocab_size() == 205);
  CHECK(tokenizer.encode("a") == Ids{102});
  CHECK(tokenizer.decode({102}) == "a");
  CHECK(tokenizer.prefix_ids() == Ids{7});
  CHECK(tokenizer.suffix_ids() == Ids{8});
  CHECK(tokenizer.end_id() == 1);
  CHECK(tokenizer.is_end(2));
  CHECK(tokenizer.pad_id() == 0);
  CHECK_THROWS_WITH(tokenizer.encode(""),
                    Contains("there is nothing to encode") && Contains("while plugin 'shift' was in phase encode"));
  // The resolved configuration says the same again.
  const auto text = config::to_toml(out.job->tables());
  CHECK_THAT(text, Contains("[tokenizer]\nplugin = \"shift\"  # ") && Contains("first = 5  # "));
  CHECK_THAT(text, Contains("tokenizer = \"auto\"\n"));
}

TEST_CASE("what is wrong with [tokenizer] is said with its place") {
  const test::Folder folder;
  const auto file = (folder / "a.toml").string();
  const auto table = [](const std::string& rest) { return "[tokenizer]\nplugin = \"shift\"\n" + rest; };
  CHECK(only_fault(prepared(folder, table(""), "tokenizer = \"byte\"\n")) ==
        file + ":5: data.tokenizer and [tokenizer] (" + file +
            ":11) both say which tokenizer to use\n    fix: keep one: data.tokenizer for a tokenizer.json, [tokenizer] "
            "for a plugin");
  CHECK_THAT(only_fault(prepared(folder, table("frist = 1\n"))),
             Contains(file + ":12: unknown option tokenizer.frist") && Contains("did you mean 'first'?"));
  CHECK_THAT(only_fault(prepared(folder, "[tokenizer]\nfirst = 1\n")), Contains("tokenizer.plugin"));
  CHECK_THAT(only_fault(prepared(folder, "[tokenizer]\nplugin = \"shfit\"\n")),
             Contains(file + ":11: there is no tokenizer plugin 'shfit'; looked for"));
  CHECK_THAT(
      only_fault(prepared(folder, table("first = 8\n"))),
      Contains(file + ":11: the vocabulary is empty\n    fix: fill it\n    while plugin 'shift' was in phase open"));
  CHECK_THAT(only_fault(prepared(folder, table("first = 9\n"))),
             Contains("tokenizer plugin 'shift' opened no tokenizer"));
}

TEST_CASE("token caches depend on a tokenizer plugin's options and files") {
  const test::Folder folder;
  const auto cache = [&](const std::string& options) {
    const auto out = prepared(folder, "[tokenizer]\nplugin = \"shift\"\n" + options,
                              "cache = \"" + (folder / "tokens").string() + "\"\n");
    CHECK(out.faults.empty());
    REQUIRE(out.job);
    const auto splits = assembly::cached_splits(out.job->config, out.job->plugins, out.job->samples);
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
  // The size and time are the same, and yet it is another file.
  const auto time = std::filesystem::last_write_time(file);
  folder.write("words.txt", "a b d");
  std::filesystem::last_write_time(file, time);
  CHECK(cache("vocabulary = \"words.txt\"\n") != longer);
  folder.write("words.txt", "a b c");
  CHECK(cache("vocabulary = \"words.txt\"\n") == longer);
}
