#include <capstan/data/source.h>
#include <capstan/data/tokenizer.h>

namespace capstan::data {

Tokenizer::~Tokenizer() = default;
DataSource::~DataSource() = default;
Data::~Data() = default;

monitor::Values DataSource::score(const Sample&, const std::string&) const { return {}; }
std::size_t DataSource::answer_end(std::string_view) const { return std::string_view::npos; }

}  // namespace capstan::data
