// An object's members, by order and by key.
#include <capstan/json/object.h>
#include <capstan/json/value.h>

#include <algorithm>
#include <functional>

namespace capstan {
namespace {

constexpr std::size_t most_without_index = 16;

}  // namespace

JsonObject::JsonObject() = default;
JsonObject::JsonObject(const JsonObject& other) = default;
JsonObject::JsonObject(JsonObject&& other) noexcept = default;
JsonObject::~JsonObject() = default;

JsonObject& JsonObject::operator=(JsonObject other) noexcept {
  members_.swap(other.members_);
  slots_.swap(other.slots_);
  return *this;
}

// Where the key's place stands among the slots, or would: probing is linear, and half of the slots are free.
std::size_t JsonObject::slot_of(std::string_view key) const {
  const auto mask = slots_.size() - 1;
  auto slot = std::hash<std::string_view>()(key) & mask;
  while (slots_[slot] != 0 && members_[slots_[slot] - 1].key != key) slot = (slot + 1) & mask;
  return slot;
}

void JsonObject::index() {
  slots_.clear();
  if (members_.size() <= most_without_index) return;
  std::size_t count = 4 * most_without_index;
  while (count < 3 * members_.size()) count *= 2;
  slots_.assign(count, 0);
  for (std::size_t place = 0; place < members_.size(); ++place)
    slots_[slot_of(members_[place].key)] = static_cast<std::uint32_t>(place + 1);
}

std::size_t JsonObject::find(std::string_view key) const {
  if (!slots_.empty()) {
    const auto place = slots_[slot_of(key)];
    return place == 0 ? members_.size() : place - 1;
  }
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& each) { return each.key == key; });
  return static_cast<std::size_t>(found - members_.begin());
}

Json& JsonObject::at(std::string_view key) {
  const auto slot = slots_.empty() ? 0 : slot_of(key);
  const auto place = slots_.empty() ? find(key) : slots_[slot] == 0 ? members_.size() : slots_[slot] - 1;
  if (place < members_.size()) return members_[place].value;
  members_.push_back({std::string(key), Json()});
  if (members_.size() * 2 > slots_.size()) {
    index();
  } else {
    slots_[slot] = static_cast<std::uint32_t>(members_.size());
  }
  return members_.back().value;
}

void JsonObject::erase(std::size_t place) {
  members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(place));
  index();
}

void JsonObject::sort() {
  std::sort(members_.begin(), members_.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  index();
}

bool JsonObject::equals(const JsonObject& other) const {
  const auto is_in_other = [&](const JsonMember& member) {
    const auto place = other.find(member.key);
    return place < other.members_.size() && other.members_[place].value == member.value;
  };
  return members_.size() == other.members_.size() && std::all_of(members_.begin(), members_.end(), is_in_other);
}

}  // namespace capstan
