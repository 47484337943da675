#pragma once
#include "sample_text.h"
#include "statistics.h"

#include <string>
#include <vector>

namespace looking {

/// A sequence as a terminal and a page show it.
struct ShownSequence {
  std::string head;  ///< "sequence 2: 120 tokens, 4 bear loss"; empty: the sample's says it
  std::vector<SamplePart> parts;
};

struct ShownSample {
  std::string head;  ///< "sample 3, id q7: 120 tokens, 4 bear loss, prompt of 116"
  std::vector<ShownSequence> sequences;
  std::vector<std::string> fields = {};  ///< "score: 0.5"
};

/// One HTML page: what is said of the split, its lengths as a drawing, and samples whose tokens that bear loss are
/// coloured and underlined.
std::string data_page(const std::string& title, const std::vector<std::string>& said, const Statistics* statistics,
                      const std::vector<ShownSample>& samples);

}  // namespace looking
