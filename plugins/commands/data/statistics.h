#pragma once
#include <capstan/data/source.h>
#include <capstan/session/split_view.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace looking {

/// The tokens of a sequence that bear loss; nothing predicts the first one.
std::int64_t targets_of(const capstan::data::SequenceView& sequence);

/// Samples whose tokens are those of an earlier one.
struct Duplicates {
  std::int64_t count = 0;
  std::string first;    ///< the id of the first one's original
  std::string copy_id;  ///< and its own
};

/// Samples that are longer than data.max_length.
struct TooLong {
  std::int64_t samples = 0;
  std::int64_t all = 0;      ///< samples in the files, those too that are left out
  bool left_out = false;     ///< else they are cut
  std::int64_t targets = 0;  ///< tokens that bear loss, in the files
};

/// Which of several sources a sample is of, as its form names them.
struct SourceNames {
  std::vector<std::string> names = {};  ///< empty: there is one source
  std::size_t field = 0;                ///< the place of the field that has a name's index

  static SourceNames of(const capstan::data::SampleForm& form) {
    SourceNames found{form.sources};
    while (found.field < form.fields.size() && form.fields[found.field].name != capstan::data::source_field)
      ++found.field;
    return found;
  }
  /// The index of the sample's name; nothing where it has none.
  std::optional<std::size_t> index(const capstan::data::Sample& sample) const;
};

/// What a split's samples are, all together.
struct Statistics {
  std::int64_t samples = 0;
  std::int64_t max_length = 0;
  std::vector<std::int64_t> lengths = {};  ///< tokens of each sample's longest sequence, ascending
  std::int64_t tokens = 0;                 ///< of all sequences
  std::int64_t targets = 0;                ///< tokens that bear loss
  std::int64_t without_target = 0;         ///< samples of which nothing bears loss
  Duplicates duplicates = {};
  std::optional<TooLong> too_long = {};  ///< nothing: the data plugin does not tell what is cut
  std::vector<std::pair<std::string, std::int64_t>> sources = {};  ///< samples of each, where there are several
};

/// Counts samples, which are added in their order.
class Counter {
 public:
  /// `again` gives a sample once more: two whose sums are equal are compared.
  explicit Counter(std::function<capstan::data::Sample(std::int64_t)> again, SourceNames sources = {});
  void add(const capstan::data::Sample& sample);
  Statistics finish(std::int64_t max_length, const std::vector<capstan::session::SampleLength>& whole);

 private:
  void find_duplicate(const capstan::data::Sample& sample, std::int64_t index);

  std::function<capstan::data::Sample(std::int64_t)> again_;
  SourceNames sources_;
  Statistics statistics_;
  std::unordered_map<std::uint64_t, std::int64_t> first_;  // the first sample with these tokens, by their sum
};

/// A range of lengths, and how many samples have such a one.
struct Bin {
  std::int64_t from = 0;
  std::int64_t to = 0;  ///< the last one; below 0: no end
  std::int64_t samples = 0;
};

/// Some ten ranges of equal width with round borders; the last one may have the few that are much longer.
std::vector<Bin> bins_of(const std::vector<std::int64_t>& ascending);

/// The length below or at which this share of the samples is.
std::int64_t quantile(const std::vector<std::int64_t>& ascending, double share);

/// "0 to 49", "500 and more".
std::string range_text(const Bin& bin);

/// "3.4 %".
std::string percent(std::int64_t part, std::int64_t all);

/// Sentences: lengths, what is cut or left out, what bears loss, duplicates.
std::vector<std::string> sentences(const Statistics& statistics);

/// The sentences and the lengths' histogram, for a terminal.
std::string statistics_text(const Statistics& statistics);

}  // namespace looking
