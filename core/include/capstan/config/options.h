#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/value.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// In the order of Value's alternatives after monostate.
enum class Type { boolean, integer, number, string, integers, numbers, strings };
/// "boolean", "integer", … "list of strings".
std::string type_text(Type type);

/// One option as a schema shows it: in --help, in `capstan plugins NAME` and in the config reference.
struct OptionSpec {
  std::string key;
  Type type = Type::string;
  Value default_value;  ///< monostate: not set unless the user sets it
  bool required = false;
  bool is_path = false;  ///< relative paths are taken from the folder of the file that names them
  std::optional<double> min{};
  std::optional<double> max{};
  bool min_is_exclusive = false;
  std::vector<std::string> choices{};    ///< strings only; empty = free
  std::vector<std::string> spellings{};  ///< other keys that mean the same (a model file's own names)
  std::string doc{};
};

/// An option that there was. Its old default is accepted in silence, since the config.toml of an older run has every
/// option; another value is refused.
struct GoneOption {
  std::string key;
  Value was;            ///< its default
  std::string instead;  ///< the refusal's fix: what to do now
};

/// The options of a table, in the order in which they are shown.
struct Schema : std::vector<OptionSpec> {
  using std::vector<OptionSpec>::vector;
  std::vector<GoneOption> gone;
};

/// An option's type as a person reads it: "integer", "string, path".
std::string type_text(const OptionSpec& spec);
/// Its default as a person reads it: "required", "not set", or the value.
std::string default_text(const OptionSpec& spec);
/// What the value is limited to, in words: "at least 1", "above 0 and at most 1", "one of \"a\", \"b\""; or "".
std::string limits_text(const OptionSpec& spec);

/// What a list of the options shows. An option that accepts a single value is not shown, since there is no choice: it
/// is for a config.json, which may say that value and describes another kind of model if it says another one.
std::vector<OptionSpec> listed(const Schema& schema);

/// The host's own options in the tables of this kind of plugin. A plugin must not have one of the same name.
const Schema& host_options(const std::string& kind);
/// How a configuration names a plugin: "[strategy.fsdp]", "[model] plugin = \"gpt\"".
std::string table_example(const std::string& kind, const std::string& name);

/// An option after all layers: its spec, the value that won, where it came from.
struct Resolved {
  OptionSpec spec;
  Value value;
  Origin origin;
};

/// Checks a section against a schema: unknown and removed keys (nearest name), types, ranges, choices, required ones.
/// Every fault is added to `diagnostics`; a faulty option keeps its default. One Resolved per spec, in its order.
///
/// Where an option is given more than once (under another spelling, or by a layer that a plugin added to the
/// section), the highest layer wins; twice in one layer is a fault. Unknown keys of a model_file layer are ignored:
/// such a file has many keys of other programs. Relative paths become absolute: those of a file start at that file's
/// folder, all others at the current one; defaults stay as they are.
std::vector<Resolved> resolve(const Schema& schema, const Section& section, Diagnostics& diagnostics);

/// Refines the option just added.
class OptionBuilder {
 public:
  explicit OptionBuilder(OptionSpec& spec) : spec_(spec) {}
  OptionBuilder& min(double least) { return spec_.min = least, *this; }
  OptionBuilder& above(double bound) { return spec_.min = bound, spec_.min_is_exclusive = true, *this; }
  OptionBuilder& max(double most) { return spec_.max = most, *this; }
  OptionBuilder& choices(std::vector<std::string> names) { return spec_.choices = std::move(names), *this; }
  OptionBuilder& required() { return spec_.required = true, *this; }
  OptionBuilder& path() { return spec_.is_path = true, *this; }
  OptionBuilder& spelling(std::string key) { return spec_.spellings.push_back(std::move(key)), *this; }
  OptionBuilder& doc(std::string text) { return spec_.doc = std::move(text), *this; }

 private:
  OptionSpec& spec_;
};

namespace detail {
/// The Type of a member; a member of a type that Value does not hold does not compile.
template <class M, std::size_t index = 1>
constexpr Type type_of() {
  if constexpr (std::is_same_v<M, std::variant_alternative_t<index, Value>>)
    return static_cast<Type>(index - 1);
  else
    return type_of<M, index + 1>();
}
template <class M>
struct Unwrap {
  using type = M;
};
template <class M>
struct Unwrap<std::optional<M>> {
  using type = M;
};
/// What the tables of a struct and of those that it derives from share.
struct OptionRows {
  struct Field {
    const void* member;  ///< in the default-made struct
    void (*set)(void* member, const Value& value);
  };
  Schema schema;
  std::vector<Field> fields;
};
}  // namespace detail

/// Declares the options of the struct T: one add() per member, defaults taken from a default-made T.
/// Members belong to T or to a base class of T. Their types: bool, std::int64_t, double, std::string, vectors of these
/// (not bool), std::optional of any.
///
///     struct LowRankOptions {
///       std::int64_t rank = 8;
///       static void describe(config::OptionTable<LowRankOptions>& t) {
///         t.add("rank", &LowRankOptions::rank).min(1).doc("rank of each adapter");
///       }
///     };
template <class T>
class OptionTable {
 public:
  OptionTable() : defaults_(std::make_shared<T>()), rows_(std::make_shared<detail::OptionRows>()) {
    T::describe(*this);
  }
  /// The table of a struct that derives from T, for a function that adds T's options to any such table.
  template <std::derived_from<T> Derived>
  OptionTable(const OptionTable<Derived>& whole) : defaults_(whole.defaults_), rows_(whole.rows_) {}

  template <class M, class Owner>
  OptionBuilder add(std::string key, M Owner::*member) {
    using Inner = typename detail::Unwrap<M>::type;
    const M& value = (*defaults_).*member;
    rows_->schema.push_back(
        {.key = std::move(key), .type = detail::type_of<Inner>(), .default_value = default_of<Inner>(value)});
    rows_->fields.push_back({&value, [](void* to, const Value& given) {
                               if (const auto* inner = std::get_if<Inner>(&given)) *static_cast<M*>(to) = *inner;
                             }});
    return OptionBuilder(rows_->schema.back());
  }

  /// The option was removed: `instead` says what to do, `was` is the default that it had.
  void gone(std::string key, Value was, std::string instead) {
    rows_->schema.gone.push_back({std::move(key), std::move(was), std::move(instead)});
  }

  const Schema& schema() const { return rows_->schema; }

  template <class M, class Owner>
  std::size_t index(M Owner::*member) const {
    const void* wanted = &((*defaults_).*member);
    for (std::size_t i = 0; i < rows_->fields.size(); ++i) {
      if (rows_->fields[i].member == wanted) return i;
    }
    assertion_failed("option is in the table", __FILE__, __LINE__);
  }

  void assign(T& object, std::size_t index, const Value& value) const {
    const auto& field = rows_->fields[index];
    const auto offset = static_cast<const char*>(field.member) - reinterpret_cast<const char*>(defaults_.get());
    field.set(reinterpret_cast<char*>(&object) + offset, value);
  }

 private:
  template <class>
  friend class OptionTable;
  template <class Inner>
  static Value default_of(const std::optional<Inner>& value) {
    return value ? Value(std::in_place_type<Inner>, *value) : Value();
  }
  template <class Inner>
  static Value default_of(const Inner& value) {
    return Value(std::in_place_type<Inner>, value);
  }
  std::shared_ptr<const T> defaults_;
  std::shared_ptr<detail::OptionRows> rows_;
};

/// A filled option struct that remembers where each value came from.
template <class T>
class Options {
 public:
  /// The defaults.
  Options() {
    Diagnostics ignored;  // holds what is said of required options, nothing else
    fill(ignored);
  }
  Options(Section section, Diagnostics& diagnostics) : section_(std::move(section)) { fill(diagnostics); }
  /// The options of a struct that derives from T, for a function that looks at T's.
  template <std::derived_from<T> Derived>
  Options(const Options<Derived>& whole)
      : table_(whole.table_), section_(whole.section_), value_(whole.value_), resolved_(whole.resolved_) {}

  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }
  /// The file and line (or layer) that set this member; for a diagnostic's `where`.
  template <class M, class Owner>
  std::string where(M Owner::*member) const {
    return resolved_[table_.index(member)].origin.text();
  }
  /// True when a layer above the defaults set it.
  template <class M, class Owner>
  bool is_set(M Owner::*member) const {
    return resolved_[table_.index(member)].origin.layer != Origin::Layer::default_value;
  }
  /// "train.max_steps": the member's full name, for a diagnostic's text.
  template <class M, class Owner>
  std::string name(M Owner::*member) const {
    return (section_.path.empty() ? "" : section_.path + ".") + resolved_[table_.index(member)].spec.key;
  }
  /// Sets a member from outside the layers (a value derived from others); its origin stays.
  template <class M, class Owner, class V>
  void derive(M Owner::*member, V value) {
    value_.*member = value;
    resolved_[table_.index(member)].value = Value(value);
  }
  const std::vector<Resolved>& resolved() const { return resolved_; }
  const Section& section() const { return section_; }
  static const Schema& schema() { return table().schema(); }

 private:
  template <class>
  friend class Options;
  static const OptionTable<T>& table() {
    static const OptionTable<T> instance;
    return instance;
  }
  void fill(Diagnostics& diagnostics) {
    resolved_ = resolve(table_.schema(), section_, diagnostics);
    for (std::size_t i = 0; i < resolved_.size(); ++i) table_.assign(value_, i, resolved_[i].value);
  }
  OptionTable<T> table_ = table();
  Section section_;
  T value_{};
  std::vector<Resolved> resolved_;
};

}  // namespace config
CAPSTAN_END_NAMESPACE
