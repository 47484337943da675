#pragma once
#include <capstan/base/error.h>
#include <capstan/base/json.h>

#include <string>
#include <vector>

namespace jsonl {

/// Which rows are used, as data.keep says.
class Filters {
 public:
  Filters() = default;
  /// Each text is "COLUMN OPERATOR VALUE". Adds a fault, of the option `name` at `where`, for any other.
  Filters(const std::vector<std::string>& texts, std::string name, std::string where,
          capstan::Diagnostics& diagnostics);

  struct Condition {
    std::string text;
    std::string column;  ///< with dots where it is inside of objects
    std::string sign;    ///< = != < <= > >= has
    std::string value;
  };
  const std::vector<Condition>& conditions() const { return conditions_; }
  const std::string& name() const { return name_; }
  const std::string& where() const { return where_; }
  bool empty() const { return conditions_.empty(); }
  /// Whether a condition reads this key of a row.
  bool reads(const std::string& key) const;

 private:
  std::vector<Condition> conditions_;
  std::string name_;
  std::string where_;
};

/// The value in a row that a condition is about; null: the row has none.
const capstan::Json* value_in(const capstan::Json& row, const std::string& column);

/// Whether a condition holds for a value; a row without it is only unequal to everything. Throws Error at `place` for
/// a value that cannot be compared so.
bool holds(const Filters::Condition& condition, const capstan::Json* value, const std::string& place);

}  // namespace jsonl
