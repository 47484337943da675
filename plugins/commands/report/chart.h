#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runs/numbers.h"

namespace report {

/// One line of a chart. Its place among the others says its colour, dash and marker: a run's is the same everywhere.
struct Series {
  std::string name;
  std::vector<runs::Point> points;    ///< x ascending; values that are not finite are left out
  std::vector<runs::Point> raw = {};  ///< drawn pale below them: what they are smoothed from
};

struct Chart {
  std::string title;
  std::string x;  ///< what is on the axis, with its unit
  std::string y;
  std::vector<Series> series;
  bool from_zero = false;  ///< the y axis begins at 0
  bool counts = true;      ///< x is a whole number, and so is each tick
  std::string note = {};   ///< what else a reader has to know of the lines
};

/// How many styles there are until they repeat.
constexpr std::size_t style_count = 8;

/// Round numbers that divide a range, at least two, at most about `wanted`.
std::vector<double> ticks(double low, double high, int wanted);

/// For each series the first one before it that lies on its line, so that a reader could not see it; nothing: none.
std::vector<std::optional<std::size_t>> covers_of(const Chart& chart);

/// An <svg> that takes its colours from the page's style sheet (page.h). Some series has a point.
std::string svg_of(const Chart& chart);

/// What the series of this place looks like, for a legend.
std::string svg_key(std::size_t place);

}  // namespace report
