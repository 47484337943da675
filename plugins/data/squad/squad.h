#pragma once
#include "squad_file.h"

#include <capstan/config/file_keys.h>
#include <capstan/data.h>
#include <capstan/data_parts/split_file.h>
#include <capstan/session/sample_lengths.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tables/hub_splits.h"
#include "tokens/ends.h"

namespace squad {

struct SquadOptions : tables::TableOptions {
  std::string train;
  std::string eval;
  std::optional<std::int64_t> train_samples;
  std::optional<std::int64_t> eval_samples;
  std::vector<std::string> eval_files;
  std::int64_t max_length = 0;
  std::string loss = "answer";
  std::string answers = "in_context";
  std::string unanswerable = "refuse";
  std::optional<std::string> no_answer;
  std::string python;
  std::string derived;

  static void describe(capstan::config::OptionTable<SquadOptions>& t);
  static std::vector<capstan::config::FileKeys> file_keys();
};

/// Questions and answers from files in SQuAD's format, version 1.1 or 2.0.
class SquadData final : public capstan::data::Data, public capstan::session::SampleLengths {
 public:
  explicit SquadData(capstan::config::Options<SquadOptions> options)
      : options_(std::move(options)), splits_(capstan::config::Options<tables::TableOptions>(options_)) {}
  void check(capstan::Diagnostics& diagnostics) const override;
  std::shared_ptr<capstan::data::DataSource> open(const capstan::data::SplitRequest& request) const override;
  std::int64_t max_length() const override { return options_->max_length; }
  std::vector<capstan::session::SampleLength> lengths(const capstan::data::SplitRequest& request) const override;
  bool evaluates() const override { return !options_->eval.empty() || splits_.evaluates(); }
  std::vector<std::string> evaluation_sets() const override {
    return capstan::data::names_of_sets(options_->eval_files);
  }

 private:
  std::optional<SquadFile> read(const capstan::data::SplitFile& file, capstan::data::Split split,
                                capstan::Diagnostics& diagnostics) const;

  std::shared_ptr<capstan::data::DataSource> source_of(SquadFile file,
                                                       const capstan::data::SplitRequest& request) const;
  SquadFile read_file(const capstan::data::SplitFile& file, capstan::data::Split split,
                      capstan::Diagnostics& diagnostics) const;
  Reading reading() const;
  void check_no_answer(capstan::Diagnostics& diagnostics) const;
  std::string no_answer() const { return options_->no_answer.value_or("unanswerable"); }

  capstan::config::Options<SquadOptions> options_;
  tables::HubSplits splits_;
  mutable tokens::EndWarnings end_warnings_;
};

}  // namespace squad
