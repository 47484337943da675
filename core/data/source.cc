#include <capstan/data/source.h>

namespace capstan::data {

DataSource::~DataSource() = default;
Data::~Data() = default;
bool Data::uses_tokenizer() const { return true; }
bool Data::evaluates() const { return true; }

monitor::Values DataSource::score(const Sample&, const std::string&) const { return {}; }
Sample DataSource::question(std::int64_t index, std::int64_t) const { return get(index); }
std::size_t DataSource::answer_end(std::string_view) const { return std::string_view::npos; }
std::vector<std::int64_t> DataSource::end_ids() const { return {}; }

}  // namespace capstan::data
