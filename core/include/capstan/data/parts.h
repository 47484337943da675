#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// A table of [[data.sources]]: a data plugin with options of its own.
struct DataPart {
  std::string name;   ///< no other part's; letters, digits, "_" and "-"
  double weight = 1;  ///< above 0
  std::string where;  ///< what in the configuration names it
  /// Its samples may be read from a token cache once they are opened; data.eval_fraction is done already.
  std::shared_ptr<const Data> data;
};

/// A data plugin that is made of others, those of [[data.sources]]: it derives from this besides Data.
class MadeOfParts {
 public:
  virtual ~MadeOfParts();
  /// At least one, in the configuration's order. Called once, before all calls of Data.
  virtual void take(std::vector<DataPart> parts) = 0;
};

}  // namespace data
CAPSTAN_END_NAMESPACE
