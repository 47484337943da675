#pragma once
#include <capstan/base/error.h>
#include <capstan/config/value.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace imports {

/// One option of ours.
struct Setting {
  capstan::config::Value value;  ///< monostate: it is a comment
  std::string from;              ///< what set it: another program's key
  std::string comment = {};      ///< what stands after the option's name in its place, where `value` is monostate
};

/// What another program's configuration becomes here: options by their full names in the order in which they were set,
/// and notes about the rest. Not thread-safe.
class Settings {
 public:
  /// Two keys may mean one option: a value wins over a comment, the same value is set once, and of two values the first
  /// one stays. Returns that first one where it is another value; else null.
  const Setting* set(const std::string& ours, Setting setting);
  /// Only where nothing has set it.
  void set_default(const std::string& ours, capstan::config::Value value, const std::string& from);
  /// In the place of what has set it; nothing where it is not set.
  void replace(const std::string& ours, Setting setting);
  /// Takes it out; returns what had set it.
  std::optional<Setting> drop(const std::string& ours);
  const Setting* find(const std::string& ours) const;
  /// The value of an option that is set; nothing where it is a comment.
  template <class T>
  std::optional<T> get(const std::string& ours) const {
    const auto* found = find(ours);
    if (found == nullptr || !std::holds_alternative<T>(found->value)) return {};
    return std::get<T>(found->value);
  }

  void note(std::string text) { notes_.push_back(std::move(text)); }
  const std::vector<std::string>& notes() const { return notes_; }

  /// The tables that have options, "train" or "strategy.fsdp", in the order of their first ones.
  std::vector<std::string> tables() const;
  /// Has a table only comments?
  bool is_open(const std::string& table) const;
  /// A table's options, a line each, below its head; its plugin comes first.
  std::string table_text(const std::string& table, const std::string& head) const;
  /// The notes as comments.
  std::string notes_text() const;

 private:
  std::map<std::string, Setting> settings_;
  std::vector<std::string> order_;  // the keys of settings_
  std::vector<std::string> notes_;
};

/// The text as part of a comment, which ends at the line's end and holds no control character.
std::string in_comment(std::string text);

/// What to do about a key that is unknown, beside those of the same table that are known.
std::string unknown_fix(const std::string& name, const std::vector<std::string>& known);

}  // namespace imports
