#pragma once
#include <capstan/data/source.h>
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace tokens {

/// What a source's samples begin and end with.
struct Ends {
  const capstan::tokenizer::Tokenizer& tokenizer;
  std::function<std::string(std::int64_t)> where;  ///< a sample's place: "FILE:LINE"
  /// Is the tokenizer's end token put after this sample, where it has one?
  std::function<bool(std::int64_t, const capstan::data::Sample&)> wants_end;
};

/// What is wrong with the beginnings and ends of a source's first samples, a sentence each: the text has a begin or end
/// token itself that is put there too, so that the model sees it twice, or an end token is wanted and the tokenizer has
/// none. Looks at 256 samples, or at as many as have 262,144 tokens; what get() throws says nothing here.
std::vector<std::string> faults_of_ends(const capstan::data::DataSource& source, const Ends& ends);

/// Logs these faults as warnings, each once: a split may be opened several times.
class EndWarnings {
 public:
  void warn(const capstan::data::DataSource& source, const Ends& ends);

 private:
  std::set<std::string> said_;
};

}  // namespace tokens
