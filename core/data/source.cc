#include <capstan/data/order.h>
#include <capstan/data/parts.h>
#include <capstan/data/source.h>

namespace capstan::data {

std::vector<SequenceView> sequences_of(const Sample& sample) {
  std::vector<SequenceView> all{{sample.tokens, sample.is_target}};
  for (const auto& other : sample.others) all.push_back({other.tokens, other.is_target});
  return all;
}

std::unique_ptr<SampleOrder> DataSource::order(const OrderRequest& /*request*/) const { return nullptr; }

DataSource::~DataSource() = default;
Data::~Data() = default;
MadeOfParts::~MadeOfParts() = default;

}  // namespace capstan::data
