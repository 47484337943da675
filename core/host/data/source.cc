#include <capstan/data/source.h>

namespace capstan::data {

DataSource::~DataSource() = default;
Data::~Data() = default;

}  // namespace capstan::data
