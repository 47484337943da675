#pragma once
#include <string>
#include <utility>
#include <vector>

namespace runs {

/// A number with this many decimals.
std::string fixed(double number, int decimals);

using Point = std::pair<double, double>;
/// At most `most` points: each is the mean of as many neighbours. Those that are not finite are left out.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);
/// Each point's y as the mean of the `window` points around it, of fewer at both ends. Those that are not finite are
/// left out.
std::vector<Point> smoothed(const std::vector<Point>& points, std::size_t window);

}  // namespace runs
