#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>
#include <capstan/plugin/host.h>
#include <capstan/session/sample_lengths.h>
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// What several samples are as one batch.
struct BatchView {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t real_tokens = 0;    ///< positions that are no padding
  std::int64_t target_tokens = 0;  ///< tokens that bear loss
};

/// A split of a configuration's data, as its model would see it. No tensor is made. One thread at a time.
class SplitView {
 public:
  using Environment = std::function<std::optional<std::string>(const std::string&)>;
  /// Throws Error with the configuration's faults, and where it has no such split. `host` outlives it.
  static std::unique_ptr<SplitView> open(const std::string& config, const std::vector<std::string>& overrides,
                                         data::Split split, const Environment& env, plugin::Host& host);
  virtual ~SplitView() = default;

  virtual std::int64_t size() const = 0;
  /// 0 <= index < size(). Throws Error, which names the data plugin, for data that is wrong in that sample.
  virtual data::Sample sample(std::int64_t index) const = 0;
  /// What each sample consists of.
  virtual const data::SampleForm& form() const = 0;
  virtual const tokenizer::Tokenizer& tokenizer() const = 0;
  /// Each sequence in a row of its own.
  virtual BatchView batch(const std::vector<data::Sample>& samples) const = 0;
  /// As data.packing puts them into rows; nothing where the configuration does not ask for it.
  virtual std::optional<BatchView> packed(const std::vector<data::Sample>& samples) const = 0;
  /// The longest sequence that its samples may have.
  virtual std::int64_t max_length() const = 0;
  /// What all samples have before anything of them is cut, those too that are left out; empty where the data plugin
  /// does not tell.
  virtual std::vector<SampleLength> lengths() const = 0;
  /// For people: how many of the first samples have no accepted answer in their prompt only because it was cut; empty
  /// where none has.
  virtual std::string cut_answers() const = 0;
};

}  // namespace session
CAPSTAN_END_NAMESPACE
