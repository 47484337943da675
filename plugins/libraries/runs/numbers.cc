#include "runs/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace runs {

std::string fixed(double number, int decimals) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%.*f", decimals, number);
  return out.data();
}

namespace {

std::vector<Point> finite(const std::vector<Point>& points) {
  std::vector<Point> kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept),
               [](const Point& point) { return std::isfinite(point.first) && std::isfinite(point.second); });
  return kept;
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  auto kept = finite(points);
  const auto each = (kept.size() + most - 1) / most;
  if (each <= 1) return kept;
  std::vector<Point> out;
  for (std::size_t begin = 0; begin < kept.size(); begin += each) {
    const auto end = std::min(kept.size(), begin + each);
    Point sum{0, 0};
    for (auto i = begin; i < end; ++i) sum = {sum.first + kept[i].first, sum.second + kept[i].second};
    const auto count = static_cast<double>(end - begin);
    out.emplace_back(sum.first / count, sum.second / count);
  }
  return out;
}

std::vector<Point> smoothed(const std::vector<Point>& points, std::size_t window) {
  const auto kept = finite(points);
  std::vector<Point> out;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto begin = i - std::min(i, window / 2);
    const auto end = std::min(kept.size(), i + std::max<std::size_t>(1, window - window / 2));
    double sum = 0;
    for (auto j = begin; j < end; ++j) sum += kept[j].second;
    out.emplace_back(kept[i].first, sum / static_cast<double>(end - begin));
  }
  return out;
}

}  // namespace runs
