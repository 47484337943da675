#pragma once
#include <capstan/base/export.h>
#include <capstan/json/error.h>
#include <capstan/json/iterator.h>
#include <capstan/json/object.h>

#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE

/// How a text is read.
struct JsonParsing {
  bool comments = false;                         ///< as C++ has them; they are passed over
  std::vector<std::string>* repeated = nullptr;  ///< gets each key that stands in its object already
};

/// A JSON value: null, true or false, a number, a text, a list or an object. Experimental: a later level of the SDK may
/// change it.
///
/// An object keeps the order of its members; of two equal keys in a text the last one's value counts, in the place of
/// the first. Whole numbers are 64-bit ones, and unsigned only where int64 does not hold them; any other number is a
/// double. A braced list of pairs that begin with texts is an object, any other one a list.
///
/// Whoever asks for something else than the value is gets a JsonError. Any number of threads may read one at once.
class Json {
 public:
  using iterator = JsonIterator<false>;
  using const_iterator = JsonIterator<true>;

  Json() noexcept;
  Json(std::nullptr_t) noexcept;
  Json(std::same_as<bool> auto truth) noexcept { put(static_cast<bool>(truth)); }
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) Json(Number number)
  noexcept {
    if constexpr (std::is_signed_v<Number>) {
      put(static_cast<std::int64_t>(number));
    } else {
      put(static_cast<std::uint64_t>(number));
    }
  }
  Json(std::floating_point auto number) noexcept { put(static_cast<double>(number)); }
  Json(const char* text);
  Json(std::string text) noexcept;
  Json(std::string_view text);
  Json(std::initializer_list<Json> items);
  template <class T>
  Json(const std::vector<T>& items) : Json(array()) {
    for (const auto& item : items) push_back(Json(static_cast<const T&>(item)));
  }
  template <class T, std::size_t count>
  Json(const std::array<T, count>& items) : Json(array()) {
    for (const auto& item : items) push_back(Json(item));
  }
  template <class T>
  Json(const std::map<std::string, T>& members) : Json(object()) {
    for (const auto& [key, value] : members) (*this)[key] = Json(value);
  }
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  static Json array(std::initializer_list<Json> items = {});
  static Json object();
  /// Throws JsonParseError.
  static Json parse(std::string_view text, const JsonParsing& how = {});
  /// What try_parse_json returns for a text that is none: of no kind at all, and equal to nothing.
  static Json discarded();

  bool is_null() const noexcept;
  bool is_boolean() const noexcept;
  bool is_number() const noexcept;
  bool is_number_integer() const noexcept;   ///< a whole number that int64 holds
  bool is_number_unsigned() const noexcept;  ///< a whole number from 0
  bool is_number_float() const noexcept;
  bool is_string() const noexcept;
  bool is_array() const noexcept;
  bool is_object() const noexcept;
  bool is_discarded() const noexcept;
  bool is_structured() const noexcept { return is_array() || is_object(); }
  bool is_primitive() const noexcept { return !is_structured() && !is_discarded(); }
  /// "null", "boolean", "number", "string", "array", "object", "discarded".
  const char* type_name() const noexcept;

  /// bool, any number, std::string, Json, std::vector and std::map<std::string, …> of these. Numbers are converted:
  /// fractions are cut off. Throws JsonError for a value of another kind, and for one that a whole number's type does
  /// not hold.
  template <class T>
  T get() const {
    T out{};
    get_to(out);
    return out;
  }
  /// A text itself.
  const std::string& text() const;
  /// What lies at a dotted path of keys. Throws JsonError with the path and both kinds: "cursor.samples is a string,
  /// not a whole number". Nothing is converted, but a whole number to a double.
  template <class T>
  T read(std::string_view path) const {
    const auto& found = follow(path);
    if constexpr (std::same_as<T, bool>) {
      found.require(found.is_boolean(), path, "true or false");
    } else if constexpr (std::integral<T>) {
      found.require(found.is_number_integer() || found.is_number_unsigned(), path, "a whole number");
    } else if constexpr (std::floating_point<T>) {
      found.require(found.is_number(), path, "a number");
    } else if constexpr (std::same_as<T, std::string>) {
      found.require(found.is_string(), path, "a string");
    }
    return found.template read_whole<T>(path);
  }

  /// How many items or members; 0 for null, 1 for any other value.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  /// The end where it is null. Throws JsonError for any other value that is no list and no object, so that a loop over
  /// what another program wrote never passes such a value over.
  iterator begin();
  iterator end() noexcept;
  const_iterator begin() const;
  const_iterator end() const noexcept;
  /// The members of an object, with `key` and `value`; none of null. Throws JsonError for any other value.
  const std::vector<JsonMember>& items() const;

  /// null becomes an object; a key that is not there gets null.
  Json& operator[](std::string_view key);
  Json& operator[](std::size_t index);
  const Json& operator[](std::string_view key) const { return at(key); }
  const Json& operator[](std::size_t index) const { return at(index); }
  /// Throws JsonKeyError for a key that is not there.
  const Json& at(std::string_view key) const;
  Json& at(std::string_view key);
  const Json& at(std::size_t index) const;
  Json& at(std::size_t index);
  const Json& front() const { return at(std::size_t{0}); }
  const Json& back() const { return at(size() - 1); }
  /// end() where there is no such key, as in a value that is no object.
  iterator find(std::string_view key) noexcept;
  const_iterator find(std::string_view key) const noexcept;
  bool contains(std::string_view key) const noexcept;
  /// The value of a key, or what stands in for one that is not there. Throws JsonError for what is no object.
  template <class T>
  T value(std::string_view key, const T& absent) const {
    const auto* found = member(key);
    return found ? found->get<T>() : absent;
  }
  std::string value(std::string_view key, const char* absent) const { return value(key, std::string(absent)); }

  /// null becomes a list.
  Json& push_back(Json item);
  /// Adds a member where the key is not there yet; returns whether it did.
  bool emplace(std::string_view key, Json value);
  /// Sets all members of another object.
  void update(const Json& more);
  /// Takes a member out; returns how many there were.
  std::size_t erase(std::string_view key);
  /// Takes what is there out; returns what follows.
  iterator erase(iterator place);
  /// The same with all objects' members by the bytes of their keys.
  Json sorted() const;

  /// The text, on one line or with each level indented. Bytes that are no UTF-8 become U+FFFD, numbers that are not
  /// finite null.
  std::string dump(int indent = -1) const;

  /// Whole numbers and others by their value, objects without regard to the order of their members.
  friend bool operator==(const Json& a, const Json& b) noexcept { return a.equals(b); }
  /// Numbers by their value; other kinds have no order.
  friend std::partial_ordering operator<=>(const Json& a, const Json& b) noexcept { return a.order(b); }
  friend std::ostream& operator<<(std::ostream& out, const Json& json) { return json.print(out); }

 private:
  using List = std::vector<Json>;
  enum class Kind : std::size_t { none, null, boolean, whole, natural, real, string, list, members };
  Kind kind() const noexcept { return static_cast<Kind>(value_.index()); }

  void put(bool truth) noexcept;
  void put(std::int64_t number) noexcept;
  void put(std::uint64_t number) noexcept;
  void put(double number) noexcept;

  bool to_bool() const;
  std::int64_t to_int64() const;
  std::uint64_t to_uint64() const;
  double to_double() const;
  const List& to_list() const;
  const JsonObject& to_object() const;
  List& as_list();
  JsonObject& as_object();
  bool equals(const Json& other) const noexcept;
  std::partial_ordering order(const Json& other) const noexcept;
  std::ostream& print(std::ostream& out) const;
  const Json* member(std::string_view key) const;  // null: not there

  void get_to(bool& out) const { out = to_bool(); }
  template <std::integral Number>
  void get_to(Number& out) const {
    if constexpr (std::is_signed_v<Number>) {
      const auto number = to_int64();
      if (!std::in_range<Number>(number)) fail_range();
      out = static_cast<Number>(number);
    } else {
      const auto number = to_uint64();
      if (!std::in_range<Number>(number)) fail_range();
      out = static_cast<Number>(number);
    }
  }
  template <std::floating_point Number>
  void get_to(Number& out) const {
    out = static_cast<Number>(to_double());
  }
  void get_to(std::string& out) const { out = text(); }
  void get_to(Json& out) const { out = *this; }
  template <class T>
  void get_to(std::vector<T>& out) const {
    out.reserve(to_list().size());
    for (const auto& item : to_list()) out.push_back(item.get<T>());
  }
  template <class T>
  void get_to(std::map<std::string, T>& out) const;

  const Json& follow(std::string_view path) const;
  void require(bool fits, std::string_view path, const char* wanted) const;
  template <class T>
  T read_whole(std::string_view path) const {
    try {
      return get<T>();
    } catch (const JsonError& error) {
      fail_at(path, error);
    }
  }
  [[noreturn]] static void fail_at(std::string_view path, const JsonError& error);
  [[noreturn]] void fail_range() const;
  [[noreturn]] void fail_kind(const char* wanted) const;

  friend struct JsonBuilder;
  friend class JsonWriter;
  std::variant<std::monostate, std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, List, JsonObject>
      value_;
};

/// A key of an object and its value.
struct JsonMember {
  std::string key;
  Json value;
};

template <class T>
void Json::get_to(std::map<std::string, T>& out) const {
  for (const auto& [key, value] : to_object().members()) out.insert_or_assign(key, value.template get<T>());
}

CAPSTAN_END_NAMESPACE
