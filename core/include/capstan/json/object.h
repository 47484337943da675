#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE

class Json;
struct JsonMember;

/// The members of an object in the order in which they were added, found by key: among many by hashes, which are kept
/// from some 16 members on. What Json is made of; see there.
class JsonObject {
 public:
  JsonObject();
  JsonObject(const JsonObject& other);
  JsonObject(JsonObject&& other) noexcept;
  JsonObject& operator=(JsonObject other) noexcept;
  ~JsonObject();

  const std::vector<JsonMember>& members() const { return members_; }
  std::vector<JsonMember>& members() { return members_; }
  /// Its place among the members; their number where there is no such key.
  std::size_t find(std::string_view key) const;
  /// The member with this key, which is made where there is none.
  Json& at(std::string_view key);
  /// Takes the member at this place out.
  void erase(std::size_t place);
  /// Members by the bytes of their keys.
  void sort();
  /// Whether both have equal values for the same keys.
  friend bool operator==(const JsonObject& a, const JsonObject& b) { return a.equals(b); }

 private:
  bool equals(const JsonObject& other) const;
  void index();
  std::size_t slot_of(std::string_view key) const;

  std::vector<JsonMember> members_;
  std::vector<std::uint32_t> slots_;  // places + 1, 0: free; empty while there are few members
};

CAPSTAN_END_NAMESPACE
