#pragma once
#include <capstan/base/error.h>
#include <capstan/base/json.h>

#include <cstdint>
#include <string>
#include <vector>

namespace hf {

/// A value of a JSON file with its name there, for messages: wrong types and unknown keys are added to the diagnostics,
/// and reading continues with an empty value.
class JsonPart {
 public:
  JsonPart(const capstan::Json& value, std::string name, const std::string& file, capstan::Diagnostics& diagnostics)
      : value_(&value), name_(std::move(name)), file_(&file), diagnostics_(&diagnostics) {}

  const capstan::Json& json() const { return *value_; }
  const std::string& name() const { return name_; }
  bool has(const std::string& key) const;  ///< and it is not null
  JsonPart at(const std::string& key) const;
  std::vector<JsonPart> list(const std::string& key) const;

  std::string type() const { return text("type"); }
  std::string text(const std::string& key) const;
  /// An absent key is null here.
  bool flag(const std::string& key, bool when_absent) const;
  std::int64_t number(const std::string& key) const;

  /// Every key but these is a fault.
  void only(const std::vector<std::string>& keys) const;
  /// A fault: this value's name, then `what`.
  void refuse(const std::string& what, const std::string& fix = {}) const;

 private:
  const capstan::Json* value_;
  std::string name_;
  const std::string* file_;
  capstan::Diagnostics* diagnostics_;
};

}  // namespace hf
