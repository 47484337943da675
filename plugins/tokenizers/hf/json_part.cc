#include "json_part.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace hf {

using namespace capstan;

namespace {

const Json null_value;

std::string dotted(const std::string& name, const std::string& key) { return name.empty() ? key : name + "." + key; }

}  // namespace

bool JsonPart::has(const std::string& key) const {
  return value_->is_object() && value_->contains(key) && !value_->at(key).is_null();
}

JsonPart JsonPart::at(const std::string& key) const {
  return {has(key) ? value_->at(key) : null_value, dotted(name_, key), *file_, *diagnostics_};
}

std::vector<JsonPart> JsonPart::list(const std::string& key) const {
  const auto part = at(key);
  std::vector<JsonPart> parts;
  if (part.value_->is_array()) {
    for (const auto& item : *part.value_)
      parts.emplace_back(item, cat(part.name_, "[", parts.size(), "]"), *file_, *diagnostics_);
  } else {
    part.refuse("is no list");
  }
  return parts;
}

std::string JsonPart::text(const std::string& key) const {
  const auto part = at(key);
  if (part.value_->is_string()) return part.value_->get<std::string>();
  part.refuse("is no text");
  return {};
}

bool JsonPart::flag(const std::string& key, bool when_absent) const {
  const auto part = at(key);
  if (part.value_->is_null()) return when_absent;
  if (part.value_->is_boolean()) return part.value_->get<bool>();
  part.refuse("is neither true nor false");
  return when_absent;
}

std::int64_t JsonPart::number(const std::string& key) const {
  const auto part = at(key);
  if (part.value_->is_number_integer()) {
    const auto number = part.value_->get<std::int64_t>();
    if (number >= 0 && number <= INT32_MAX) return number;
  }
  part.refuse(cat("is ", part.value_->dump(), ", not a whole number from 0 to ", INT32_MAX));
  return 0;
}

void JsonPart::only(const std::vector<std::string>& keys) const {
  if (!value_->is_object()) return refuse("is no object");
  for (const auto& [key, value] : value_->items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) at(key).refuse("is not supported");
  }
}

void JsonPart::refuse(const std::string& what, const std::string& fix) const {
  diagnostics_->add(
      *file_, (name_.empty() ? "the file" : name_) + " " + what,
      fix.empty() ? "download it again; if it is as published, Capstan does not know such tokenizers" : fix);
}

}  // namespace hf
