#pragma once
#include "prompt.h"
#include "squad_file.h"

#include <capstan/data/source.h>

#include <cstdint>
#include <memory>

namespace squad {

/// The questions of a file. Holds their text; get() tokenises.
class SquadSource final : public capstan::data::DataSource {
 public:
  SquadSource(SquadFile file, capstan::data::OpenRequest request, Loss loss);
  std::int64_t size() const override { return static_cast<std::int64_t>(file_.questions.size()); }
  capstan::data::Sample get(std::int64_t index) const override;
  capstan::data::Sample question(std::int64_t index, std::int64_t most) const override;
  /// The official exact_match and f1; none for a question without answers.
  capstan::monitor::Values score(const capstan::data::Sample& sample, const std::string& text) const override;
  /// The first line is the answer.
  std::size_t answer_end(std::string_view text) const override { return text.find('\n'); }

 private:
  template <class Make>
  capstan::data::Sample made(const Make& make) const;
  SquadFile file_;
  capstan::data::OpenRequest request_;
  Loss loss_;
};

}  // namespace squad
