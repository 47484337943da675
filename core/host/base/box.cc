#include <capstan/base/box.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <ostream>

namespace capstan::layout {

std::int64_t numel(const Shape& shape) {
  std::int64_t product = 1;
  for (const auto size : shape) product *= size;
  return product;
}

std::string shape_text(const Shape& shape) {
  std::vector<std::string> parts;
  for (const auto size : shape) parts.push_back(std::to_string(size));
  return "[" + join(parts) + "]";
}

Box Box::whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

std::int64_t Box::numel() const { return layout::numel(size); }

bool Box::fits(const Shape& shape) const {
  if (offset.size() != shape.size() || size.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (offset[d] < 0 || size[d] < 0 || offset[d] > shape[d] || size[d] > shape[d] - offset[d]) return false;
  }
  return true;
}

std::string Box::text() const {
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < size.size(); ++d) parts.push_back(cat(offset[d], ":", offset[d] + size[d]));
  return "[" + join(parts) + "]";
}

std::ostream& operator<<(std::ostream& out, const Box& box) { return out << box.text(); }

Box intersect(const Box& a, const Box& b) {
  CAPSTAN_ASSERT(a.size.size() == b.size.size());
  Box out = a;
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    const auto begin = std::max(a.offset[d], b.offset[d]);
    const auto end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    if (begin >= end) return {Shape(a.size.size(), 0), Shape(a.size.size(), 0)};
    out.offset[d] = begin;
    out.size[d] = end - begin;
  }
  return out;
}

}  // namespace capstan::layout
