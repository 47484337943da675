#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

using Shape = std::vector<std::int64_t>;

/// The number of elements; 1 for no dimensions.
std::int64_t numel(const Shape& shape);
/// "[768, 3072]".
std::string shape_text(const Shape& shape);

/// A rectangular part of a logical tensor: elements [offset, offset + size) in every dimension.
struct Box {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> size;

  /// All of a tensor of this shape.
  static Box whole(const Shape& shape);
  std::int64_t numel() const;
  bool empty() const { return numel() == 0; }
  /// Is it inside a tensor of this shape (and has as many dimensions)?
  bool fits(const Shape& shape) const;
  bool operator==(const Box&) const = default;
  /// "[0:384, 0:768]".
  std::string text() const;
};

std::ostream& operator<<(std::ostream& out, const Box& box);
/// What both hold; a box with every size 0 when they share nothing. Both have the same number of dimensions.
Box intersect(const Box& a, const Box& b);

}  // namespace layout
CAPSTAN_END_NAMESPACE
