#pragma once
#include "columns.h"
#include "ends.h"
#include "jsonl_source.h"
#include "rows.h"
#include "selected_rows.h"
#include "template.h"

#include <capstan/data.h>
#include <capstan/data_parts/split_file.h>
#include <capstan/session/sample_lengths.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tokens/lengths.h"

namespace jsonl {

struct JsonlOptions {
  std::string train;
  std::string eval;
  std::optional<std::int64_t> train_samples;
  std::optional<std::int64_t> eval_samples;
  std::vector<std::string> eval_files;
  std::int64_t max_length = 0;
  std::string too_long = "error";
  std::string loss = "answer";
  bool pairs = false;
  bool labels = false;
  std::vector<std::string> numbers;
  std::int64_t teacher_words = 0;
  std::vector<std::string> columns;
  std::string chat_template = "none";
  std::string chat_template_file;
  std::string template_name;
  std::vector<std::string> template_variables;
  std::string template_date;
  std::string derived;
  std::string python;
  std::vector<std::string> keep;
  std::string turn;
  std::optional<std::string> system_turn;
  std::optional<std::string> user_turn;
  std::optional<std::string> assistant_turn;

  static void describe(capstan::config::OptionTable<JsonlOptions>& t);
  /// All but those that name files.
  static void describe_samples(capstan::config::OptionTable<JsonlOptions>& t);
  static void describe_template(capstan::config::OptionTable<JsonlOptions>& t);
  static void describe_turns(capstan::config::OptionTable<JsonlOptions>& t);
  /// Those that say which lines become samples.
  static void describe_selection(capstan::config::OptionTable<JsonlOptions>& t);
  static std::vector<capstan::config::FileKeys> file_keys();
  /// Keys of a line that are no fault, whatever its form's table says of them.
  std::vector<std::string> known_keys() const;
};

/// Samples from files of JSON lines: {"prompt", "completion"}, {"messages": [{"role", "content"}]}, {"text"},
/// {"conversations": [{"from", "value"}]} or {"instruction", "input", "output"}; with `pairs` {"prompt", "chosen",
/// "rejected"}, and with `labels` {"prompt", "completion", "label"}, whose samples have two sequences. A plugin whose
/// files are no JSON lines derives from it and gives their rows as such lines.
class JsonlData : public capstan::data::Data, public capstan::session::SampleLengths {
 public:
  explicit JsonlData(capstan::config::Options<JsonlOptions> options) : options_(std::move(options)) {}
  void check(capstan::Diagnostics& diagnostics) const override;
  std::shared_ptr<capstan::data::DataSource> open(const capstan::data::SplitRequest& request) const override;
  std::int64_t max_length() const override { return options_->max_length; }
  tokens::Lengths lengths(const capstan::data::SplitRequest& request) const override;
  capstan::data::SampleForm form() const override;
  bool evaluates() const override { return !options_->eval.empty(); }
  std::vector<std::string> evaluation_sets() const override {
    return capstan::data::names_of_sets(options_->eval_files);
  }

 protected:
  /// Words for the files in messages.
  virtual capstan::data::FileKind kind() const;
  /// The files of all splits, whether the options name them or not, then those of eval_files.
  virtual std::vector<capstan::data::SplitFile> files(capstan::Diagnostics& diagnostics) const;
  /// The file that a request is about.
  virtual capstan::data::SplitFile file_of(const capstan::data::SplitRequest& request) const;
  /// The rows of a split's file. Null where the options name none, and after a fault was added.
  virtual std::shared_ptr<Rows> rows(const capstan::data::SplitFile& split, capstan::Diagnostics& diagnostics) const;

 private:
  std::shared_ptr<const Rows> read(const capstan::data::SplitFile& split, capstan::Diagnostics& diagnostics) const;
  Columns columns(capstan::Diagnostics& diagnostics) const;
  Filters filters(capstan::Diagnostics& diagnostics) const;
  std::shared_ptr<Rows> kept(std::shared_ptr<Rows> file, capstan::Diagnostics& diagnostics) const;
  KeptIn kept_files() const;
  std::shared_ptr<JsonlSource> source_of(std::shared_ptr<const Rows> file, std::int64_t samples, Turns written,
                                         const capstan::data::SplitRequest& request, bool labels) const;
  void check_sequences(capstan::Diagnostics& diagnostics) const;
  tokens::Lengths lengths_of(const std::shared_ptr<const Rows>& file, std::int64_t samples, Turns written,
                             capstan::data::SplitRequest request) const;
  std::shared_ptr<capstan::data::DataSource> without_long_lines(std::shared_ptr<const JsonlSource> source,
                                                                const tokens::Lengths& lengths, const Rows& file,
                                                                const capstan::data::SplitRequest& request) const;
  void warn_once(const std::string& text) const;
  void check_columns(const Rows& file, capstan::Diagnostics& diagnostics) const;
  void check_lines(const Rows& file, const Turns& turns, const Filters& filters,
                   capstan::Diagnostics& diagnostics) const;
  /// How a file's first rows are written. The model's own template writes them here, and what it does is warned of.
  Turns written_of(const capstan::data::SplitRequest& request, const std::shared_ptr<const Rows>& file,
                   std::int64_t samples) const;
  capstan::config::Options<JsonlOptions> options_;
  mutable tokens::EndWarnings end_warnings_;
  mutable std::set<std::string> said_;  // a split may be opened several times
};

}  // namespace jsonl
