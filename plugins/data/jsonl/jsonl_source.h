#pragma once
#include "record.h"
#include "turn_end.h"

#include <capstan/data/source.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace jsonl {

struct SampleOptions {
  bool whole_sequence = false;  ///< every token bears loss
  bool cut = false;             ///< too long: lose tokens, instead of an error
};

/// A record as the model sees it. All of it is tokenised as one, so that no token is cut differently than in running
/// text; a piece begins at the first token in which that differs from the tokens of what stands before it. Where
/// nothing of a prompt would be left by that, it and its answer are tokenised apart. Too long and to be cut, a text
/// loses its end, and anything else its beginning (but for the tokenizer's begin token), the last answer never. Throws
/// Error at `where` where that leaves no room, or where nothing is to be cut.
capstan::data::Sample make_sample(const Record& record, const std::string& where,
                                  const capstan::data::OpenRequest& request, const SampleOptions& options);

/// The prompt of a record alone, as it stands in its sample. To be cut, it has at most `most` tokens and max_length,
/// and how many does not depend on the answer.
capstan::data::Sample make_question(const Record& record, const std::string& where,
                                    const capstan::data::OpenRequest& request, const SampleOptions& options,
                                    std::int64_t most);

/// The lines of a file.
class JsonlSource final : public capstan::data::DataSource {
 public:
  JsonlSource(std::shared_ptr<const LineFile> file, std::int64_t samples, Turns turns,
              capstan::data::OpenRequest request, SampleOptions options);
  std::int64_t size() const override { return samples_; }
  capstan::data::Sample get(std::int64_t index) const override;
  capstan::data::Sample question(std::int64_t index, std::int64_t most) const override;
  /// "exact_match": 100 where the answer is the expected text, white space around both left out.
  capstan::monitor::Values score(const capstan::data::Sample& sample, const std::string& text) const override;
  /// Where the template ends the assistant's turn, in a file that holds conversations.
  std::size_t answer_end(std::string_view text) const override { return end_.find(text); }
  std::vector<std::int64_t> end_ids() const override { return end_.ids; }

 private:
  std::shared_ptr<const LineFile> file_;
  std::int64_t samples_;
  Turns turns_;
  capstan::data::OpenRequest request_;
  SampleOptions options_;
  TurnEnd end_;
};

}  // namespace jsonl
