#pragma once
#include "pair.h"
#include "record.h"

#include <capstan/data/source.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace jsonl {

/// Samples that were cut.
struct CutSamples {
  std::int64_t all = 0;
  std::int64_t losing = 0;  ///< that lost tokens that bear loss
  std::int64_t tokens = 0;  ///< such tokens
};

struct SampleOptions {
  bool whole_sequence = false;            ///< every token bears loss
  bool cut = false;                       ///< if too long: cut tokens instead of an error
  bool pairs = false;                     ///< lines are pairs, else records
  bool labels = false;                    ///< records have a label, and another one's answer as a second sequence
  std::int64_t sequences = 1;             ///< a line's numbers are as many
  std::vector<std::string> numbers = {};  ///< keys of a line's numbers
  std::vector<std::string> known = {};    ///< these, and the other keys that are no fault
  std::int64_t teacher_words = 0;         ///< that a record's teacher says of each token that bears loss
  std::shared_ptr<CutSamples> cuts = {};  ///< where it is set, what is cut is counted there
};

/// A record as the model sees it. All of it is tokenised at once, so that tokens are the same as in running text; a
/// piece begins at the first token that differs from the tokens of the text before it. If that leaves nothing of a
/// prompt, it and its answer are tokenised separately. If it is too long and may be cut, a text loses its end, and
/// anything else its beginning (except the tokenizer's begin token), but never the last answer. Throws Error at `where`
/// if that leaves no room, or if it is too long and must not be cut.
capstan::data::Sample make_sample(const Record& record, const std::string& where,
                                  const capstan::data::SplitRequest& request, const SampleOptions& options);

/// A pair as the model sees it: the chosen answer's sequence, then the rejected one's. If one is too long and may be
/// cut, the prompt loses as much of its beginning in both, so that it stays the same.
capstan::data::Sample make_pair_sample(const Pair& pair, const std::string& where,
                                       const capstan::data::SplitRequest& request, const SampleOptions& options);

/// A record as make_sample has it, and with it the same prompt before the last answer of `other`. If that is too long,
/// the prompt loses its beginning there and then the answer its end, whether a record may be cut or not.
capstan::data::Sample make_mixed_sample(const Record& record, const Record& other, const std::string& where,
                                        const capstan::data::SplitRequest& request, const SampleOptions& options);

/// Only the prompt of a record, as it is in its sample. If it may be cut, it has at most `most` tokens and max_length;
/// the number does not depend on the answer.
capstan::data::Sample make_question(const Record& record, const std::string& where,
                                    const capstan::data::SplitRequest& request, const SampleOptions& options,
                                    std::int64_t most);

/// The lines of a file. Where nothing is cut, get() may be called from several threads.
class JsonlSource final : public capstan::data::DataSource {
 public:
  JsonlSource(std::shared_ptr<const Rows> file, std::int64_t samples, Turns turns, capstan::data::SplitRequest request,
              SampleOptions options);
  std::int64_t size() const override { return samples_; }
  capstan::data::Sample get(std::int64_t index) const override;
  capstan::data::Sample question(std::int64_t index, std::int64_t most) const override;
  /// "exact_match": 100 if the answer is the expected text, ignoring white space around both.
  capstan::monitor::Values score(const capstan::data::Sample& sample, const std::string& text) const override;
  /// Where the template ends the assistant's turn, in a file with conversations.
  std::size_t answer_end(std::string_view text) const override { return end_.find(text); }
  std::vector<std::int64_t> end_ids() const override { return end_.ids; }
  std::string content() const override;
  /// What get() has cut so far.
  CutSamples cuts() const { return options_.cuts ? *options_.cuts : CutSamples(); }

 private:
  void check_prompts() const;
  capstan::data::Sample labelled(const Record& record, std::int64_t index) const;
  std::shared_ptr<const Rows> file_;
  std::int64_t samples_;
  Turns turns_;
  capstan::data::SplitRequest request_;
  SampleOptions options_;
  TurnEnd end_;
};

}  // namespace jsonl
