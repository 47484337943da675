#pragma once
// A job whose [tokenizer] is a plugin's.
#include <capstan/testing.h>
#include <capstan/tokenizer.h>
#include <capstan_catch.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/job.h"
#include "support/folder.h"
#include "testing/tiny.h"

namespace tokenizer_job {

using namespace capstan;

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
  std::optional<job::Job> job;
  std::vector<std::string> faults;
};

inline Prepared prepared(const test::Folder& folder, const std::string& tokenizer, const std::string& data = "") {
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
  Prepared out{job::prepare(request, *host, faults), {}};
  for (const auto& fault : faults.list()) out.faults.push_back(fault.text());
  return out;
}

}  // namespace tokenizer_job
