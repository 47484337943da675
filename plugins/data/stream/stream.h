#pragma once
#include <capstan/data.h>
#include <capstan/data_parts/split_file.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "streams/texts.h"
#include "streams/token_stream.h"

namespace stream {

struct StreamOptions {
  std::string train;
  std::string eval;
  std::optional<std::int64_t> train_samples;
  std::optional<std::int64_t> eval_samples;
  std::vector<std::string> eval_files;
  std::int64_t max_length = 0;
  std::string fill = "concat";
  std::int64_t window = 65536;
  std::string attend = "document";
  std::optional<std::string> dtype;
  std::optional<std::int64_t> end_id;
  std::optional<bool> append_end;
  std::string text = "text";
  std::string separator;
  std::string python;
  std::string derived;

  static void describe(capstan::config::OptionTable<StreamOptions>& t);
};

/// Rows of max_length tokens, cut from the documents of files of tokens, or of texts, which are tokenized once a node.
class StreamData final : public capstan::data::Data {
 public:
  explicit StreamData(capstan::config::Options<StreamOptions> options) : options_(std::move(options)) {}
  void check(capstan::Diagnostics& diagnostics) const override;
  std::shared_ptr<capstan::data::DataSource> open(const capstan::data::SplitRequest& request) const override;
  std::int64_t max_length() const override { return options_->max_length; }
  bool evaluates() const override { return !options_->eval.empty(); }
  std::vector<std::string> evaluation_sets() const override {
    return capstan::data::names_of_sets(options_->eval_files);
  }
  bool uses_tokenizer() const override;

 private:
  enum class Kind { text, flat, megatron };
  Kind kind_of(const std::string& path) const;
  bool is_there(const capstan::data::SplitFile& split, capstan::Diagnostics& diagnostics) const;
  void check_options(const std::vector<capstan::data::SplitFile>& files, capstan::Diagnostics& diagnostics) const;
  streams::TokenFile tokens_of(const std::string& path) const;
  streams::TextInput texts_of(const std::string& path) const;
  std::filesystem::path folder() const;
  std::filesystem::path tokenized(const std::string& path, const capstan::tokenizer::Tokenizer& tokenizer) const;
  streams::StreamRules rules(const streams::TokenFile& file, Kind kind,
                             const capstan::data::SplitRequest& request) const;

  capstan::config::Options<StreamOptions> options_;
};

}  // namespace stream
