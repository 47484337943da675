#pragma once
#include <capstan/data.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mixture {

struct MixtureOptions {
  std::string weights = "samples";
  std::string stop = "all";

  static void describe(capstan::config::OptionTable<MixtureOptions>& t);
};

/// The samples of several sources, drawn by their weights. A sample stands once among those that it opens: what comes
/// again is in the order alone (MixtureOrder), so nothing is copied.
class Mixture final : public capstan::data::Data, public capstan::data::MadeOfParts {
 public:
  explicit Mixture(capstan::config::Options<MixtureOptions> options) : options_(std::move(options)) {}
  void take(std::vector<capstan::data::DataPart> parts) override { parts_ = std::move(parts); }
  void check(capstan::Diagnostics& diagnostics) const override;
  std::shared_ptr<capstan::data::DataSource> open(const capstan::data::SplitRequest& request) const override;
  /// 0 where a source asks for the model's length.
  std::int64_t max_length() const override;
  capstan::data::SampleForm form() const override;
  /// A set for each source that evaluates, and the source's own as NAME_SET.
  std::vector<std::string> evaluation_sets() const override;
  bool uses_tokenizer() const override;
  bool evaluates() const override;

 private:
  struct Set {
    std::size_t part;
    std::string name;  ///< the part's own; empty: its plain evaluation
  };
  std::vector<std::pair<std::string, Set>> sets() const;
  std::shared_ptr<capstan::data::DataSource> open_part(std::size_t part, capstan::data::SplitRequest request) const;

  capstan::config::Options<MixtureOptions> options_;
  std::vector<capstan::data::DataPart> parts_;
};

}  // namespace mixture
