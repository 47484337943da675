#pragma once
#include <capstan/base/export.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE

/// One fault, described so that a person can act on it.
struct Diagnostic {
  std::string where;  ///< "configs/a.toml:12", "command line", a file; may be empty
  std::string what;   ///< what is wrong, with the value
  std::string fix;    ///< what to do; may be empty

  /// A name that was typed and that nothing here has; plugins may know it (capstan/plugin/hint.h). Else empty.
  std::string unknown_option = {};      ///< "train.batch_size", or without a table
  std::string unknown_table = {};       ///< "trainer"
  std::vector<Diagnostic> inside = {};  ///< the table's faults; each is shown only where a plugin knows the table

  /// "where: what (fix)" on one line.
  std::string text() const;
};

/// Collects everything that checks find, so that a user sees all of it at once. Not thread-safe.
class Diagnostics {
 public:
  void add(std::string where, std::string what, std::string fix = {});
  void add(Diagnostic diagnostic) { list_.push_back(std::move(diagnostic)); }
  bool empty() const { return list_.empty(); }
  std::size_t size() const { return list_.size(); }
  const std::vector<Diagnostic>& list() const { return list_; }
  /// Throws Error with all of them; does nothing when there are none.
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> list_;
};

/// An error that a user can cause and fix. Any other exception is a bug and is reported as one.
/// The context lines (plugin, phase, unit, rank) are added while the exception travels up.
class Error : public std::exception {
 public:
  explicit Error(std::string what, std::string fix = {}, std::string where = {});
  explicit Error(std::vector<Diagnostic> diagnostics);
  ~Error() override;

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  const std::vector<std::string>& context() const { return context_; }
  /// Adds "while …" to the message; the innermost context comes first.
  Error& add_context(std::string context);
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  void compose();
  std::vector<Diagnostic> diagnostics_;
  std::vector<std::string> context_;
  std::string message_;
};

/// Throws std::logic_error: a broken invariant of ours, never something that input can cause.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

/// Always on, and only for bugs.
#define CAPSTAN_ASSERT(condition) \
  (static_cast<bool>(condition) ? void(0) : ::capstan::assertion_failed(#condition, __FILE__, __LINE__))

CAPSTAN_END_NAMESPACE
