#include <capstan/data/source.h>

namespace capstan::data {

std::vector<SequenceView> sequences_of(const Sample& sample) {
  std::vector<SequenceView> all{{sample.tokens, sample.is_target}};
  for (const auto& other : sample.others) all.push_back({other.tokens, other.is_target});
  return all;
}

DataSource::~DataSource() = default;
Data::~Data() = default;

}  // namespace capstan::data
