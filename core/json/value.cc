// JSON values: what they are, and their items.
#include <capstan/json/value.h>

#include <limits>

namespace capstan {

Json::Json() noexcept : value_(nullptr) {}
Json::Json(std::nullptr_t) noexcept : value_(nullptr) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) noexcept : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json::~Json() = default;

Json& Json::operator=(Json other) noexcept {
  value_ = std::move(other.value_);
  return *this;
}

Json::Json(std::initializer_list<Json> items) {
  const auto is_pair = [](const Json& item) { return item.is_array() && item.size() == 2 && item.front().is_string(); };
  bool is_object = true;
  for (const auto& item : items) is_object = is_object && is_pair(item);
  if (!is_object) {
    value_.emplace<List>(items);
    return;
  }
  auto& object = value_.emplace<JsonObject>();
  for (const auto& item : items) object.at(item.front().text()) = item.back();
}

Json Json::array(std::initializer_list<Json> items) {
  Json json;
  json.value_.emplace<List>(items);
  return json;
}

Json Json::object() {
  Json json;
  json.value_.emplace<JsonObject>();
  return json;
}

Json Json::discarded() {
  Json json;
  json.value_.emplace<std::monostate>();
  return json;
}

void Json::put(bool truth) noexcept { value_ = truth; }
void Json::put(std::int64_t number) noexcept { value_ = number; }
void Json::put(double number) noexcept { value_ = number; }
void Json::put(std::uint64_t number) noexcept {
  if (std::in_range<std::int64_t>(number)) return put(static_cast<std::int64_t>(number));
  value_ = number;
}

bool Json::is_null() const noexcept { return kind() == Kind::null; }
bool Json::is_boolean() const noexcept { return kind() == Kind::boolean; }
bool Json::is_number() const noexcept { return is_number_integer() || is_number_unsigned() || kind() == Kind::real; }
bool Json::is_number_integer() const noexcept { return kind() == Kind::whole; }
bool Json::is_number_unsigned() const noexcept {
  const auto* number = std::get_if<std::int64_t>(&value_);
  return number ? *number >= 0 : kind() == Kind::natural;
}
bool Json::is_number_float() const noexcept { return kind() == Kind::real; }
bool Json::is_string() const noexcept { return kind() == Kind::string; }
bool Json::is_array() const noexcept { return kind() == Kind::list; }
bool Json::is_object() const noexcept { return kind() == Kind::members; }
bool Json::is_discarded() const noexcept { return kind() == Kind::none; }

std::size_t Json::size() const noexcept {
  if (const auto* items = std::get_if<List>(&value_)) return items->size();
  if (const auto* object = std::get_if<JsonObject>(&value_)) return object->members().size();
  return kind() == Kind::null || kind() == Kind::none ? 0 : 1;
}

Json::iterator Json::begin() {
  if (auto* items = std::get_if<List>(&value_)) return iterator(items->data());
  if (auto* object = std::get_if<JsonObject>(&value_)) return iterator(object->members().data());
  if (size() != 0) fail_kind("a list or an object");
  return {};
}

Json::iterator Json::end() noexcept {
  if (auto* items = std::get_if<List>(&value_)) return iterator(items->data() + items->size());
  if (auto* object = std::get_if<JsonObject>(&value_))
    return iterator(object->members().data() + object->members().size());
  return {};
}

Json::const_iterator Json::begin() const { return const_cast<Json*>(this)->begin(); }
Json::const_iterator Json::end() const noexcept { return const_cast<Json*>(this)->end(); }

const std::vector<JsonMember>& Json::items() const {
  static const std::vector<JsonMember> none_at_all;
  return is_null() ? none_at_all : to_object().members();
}

Json& Json::operator[](std::string_view key) { return as_object().at(key); }

Json& Json::operator[](std::size_t index) { return at(index); }

const Json* Json::member(std::string_view key) const {
  const auto& object = to_object();
  const auto place = object.find(key);
  return place < object.members().size() ? &object.members()[place].value : nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (const auto* found = member(key)) return *found;
  throw JsonKeyError("key '" + std::string(key) + "' not found");
}

Json& Json::at(std::string_view key) { return const_cast<Json&>(std::as_const(*this).at(key)); }

const Json& Json::at(std::size_t index) const {
  const auto& items = to_list();
  if (index < items.size()) return items[index];
  throw JsonError("a list of " + std::to_string(items.size()) + " items has no item " + std::to_string(index));
}

Json& Json::at(std::size_t index) { return const_cast<Json&>(std::as_const(*this).at(index)); }

Json::iterator Json::find(std::string_view key) noexcept {
  auto* object = std::get_if<JsonObject>(&value_);
  return object ? iterator(object->members().data() + object->find(key)) : end();
}

Json::const_iterator Json::find(std::string_view key) const noexcept { return const_cast<Json*>(this)->find(key); }

bool Json::contains(std::string_view key) const noexcept { return is_object() && member(key) != nullptr; }

Json& Json::push_back(Json item) { return as_list().emplace_back(std::move(item)); }

bool Json::emplace(std::string_view key, Json value) {
  auto& object = as_object();
  if (object.find(key) < object.members().size()) return false;
  object.at(key) = std::move(value);
  return true;
}

void Json::update(const Json& more) {
  for (const auto& [key, value] : more.to_object().members()) (*this)[key] = value;
}

std::size_t Json::erase(std::string_view key) {
  if (!contains(key)) return 0;
  auto& object = as_object();
  object.erase(object.find(key));
  return 1;
}

Json::iterator Json::erase(iterator place) {
  const auto before = static_cast<std::size_t>(std::distance(begin(), place));
  if (auto* object = std::get_if<JsonObject>(&value_)) {
    object->erase(before);
  } else {
    auto& items = as_list();
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(before));
  }
  return std::next(begin(), static_cast<std::ptrdiff_t>(before));
}

Json Json::sorted() const {
  auto copy = *this;
  if (is_array() || is_object())
    for (auto& item : copy) item = item.sorted();
  if (auto* object = std::get_if<JsonObject>(&copy.value_)) object->sort();
  return copy;
}

bool Json::equals(const Json& other) const noexcept {
  const bool are_numbers = is_number() && other.is_number();
  if (are_numbers && kind() != other.kind()) return to_double() == other.to_double();
  return !is_discarded() && value_ == other.value_;
}

std::partial_ordering Json::order(const Json& other) const noexcept {
  if (!is_number() || !other.is_number()) return std::partial_ordering::unordered;
  if (kind() == Kind::whole && other.kind() == Kind::whole) return to_int64() <=> other.to_int64();
  return to_double() <=> other.to_double();
}

}  // namespace capstan
