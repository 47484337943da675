#include <capstan/data/source.h>
#include <capstan/data/tokenizer.h>

namespace capstan::data {

Tokenizer::~Tokenizer() = default;
DataSource::~DataSource() = default;
Data::~Data() = default;

monitor::Values DataSource::score(const Sample&, const std::string&) const { return {}; }

}  // namespace capstan::data
