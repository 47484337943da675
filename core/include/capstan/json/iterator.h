#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>

CAPSTAN_BEGIN_NAMESPACE

class Json;
struct JsonMember;

/// The values of a list or an object, one after the other.
template <bool is_const>
class JsonIterator {
  using Item = std::conditional_t<is_const, const Json, Json>;
  using Member = std::conditional_t<is_const, const JsonMember, JsonMember>;

 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = Json;
  using difference_type = std::ptrdiff_t;
  using pointer = Item*;
  using reference = Item&;

  JsonIterator() = default;
  explicit JsonIterator(Item* item) : item_(item) {}
  explicit JsonIterator(Member* member) : member_(member) {}
  operator JsonIterator<true>() const {
    return member_ ? JsonIterator<true>(static_cast<const JsonMember*>(member_))
                   : JsonIterator<true>(static_cast<const Json*>(item_));
  }

  reference operator*() const { return member_ ? member_->value : *item_; }
  pointer operator->() const { return &**this; }
  const std::string& key() const { return member_->key; }  ///< an object's only
  JsonIterator& operator++() {
    if (member_) {
      ++member_;
    } else {
      ++item_;
    }
    return *this;
  }
  JsonIterator operator++(int) {
    auto old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const JsonIterator& a, const JsonIterator& b) {
    return a.item_ == b.item_ && a.member_ == b.member_;
  }

 private:
  Item* item_ = nullptr;
  Member* member_ = nullptr;
};

CAPSTAN_END_NAMESPACE
