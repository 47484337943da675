// The one file that knows nlohmann's library: it reads texts and writes numbers.
#include <capstan/json/value.h>

#include <nlohmann/json.hpp>

#include "door.h"

namespace capstan {

// What nlohmann's parser calls for each part of a text. Members of a list or an object stay where they are while one of
// them is open, as nothing is added to those around it.
struct JsonBuilder {
  using number_integer_t = std::int64_t;
  using number_unsigned_t = std::uint64_t;
  using number_float_t = double;
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;
  static constexpr std::size_t most_open = 100;

  explicit JsonBuilder(const JsonParsing& how) : how_(how) { open_.reserve(most_open); }

  bool null() { return take(); }
  bool boolean(bool truth) { return add(truth); }
  bool number_integer(std::int64_t number) { return add(number); }
  bool number_unsigned(std::uint64_t number) { return add(number); }
  bool number_float(double number, const std::string& /*text*/) { return add(number); }
  bool string(const std::string& text) {
    take_place().value_.emplace<std::string>(text);
    return true;
  }
  bool binary(binary_t& /*bytes*/) { return false; }  // no text has such
  bool start_object(std::size_t /*size*/) { return start<JsonObject>(); }
  bool start_array(std::size_t /*size*/) { return start<Json::List>(); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(const std::string& text) {
    auto& object = std::get<JsonObject>(open_.back()->value_);
    const auto count = object.members().size();
    member_ = &object.at(text);
    if (how_.repeated && object.members().size() == count) how_.repeated->push_back(text);
    return true;
  }
  bool parse_error(std::size_t place, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    using Fault = JsonParseError::Fault;
    constexpr int beyond_double = 406;
    if (error.id == beyond_double) throw JsonParseError(Fault::number, 0);
    throw JsonParseError(Fault::syntax, place);
  }

  Json result;

 private:
  Json& take_place() {
    if (open_.empty()) return result;
    auto& around = open_.back()->value_;
    if (auto* list = std::get_if<Json::List>(&around)) return list->emplace_back();
    return *member_;
  }
  bool take() {
    take_place() = Json();
    return true;
  }
  template <class T>
  bool add(T value) {
    take_place().put(value);
    return true;
  }
  template <class Structure>
  bool start() {
    if (open_.size() == most_open) throw JsonParseError(JsonParseError::Fault::depth, 0);
    auto& place = take_place();
    place.value_.emplace<Structure>();
    open_.push_back(&place);
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }

  const JsonParsing& how_;
  std::vector<Json*> open_;
  Json* member_ = nullptr;  // the innermost object's
};

Json Json::parse(std::string_view text, const JsonParsing& how) {
  JsonBuilder builder(how);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder, nlohmann::json::input_format_t::json, /*strict=*/true,
                            how.comments);
  return std::move(builder.result);
}

std::string json::number_text(double number) { return nlohmann::json(number).dump(); }

}  // namespace capstan
