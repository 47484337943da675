#pragma once
#include <string>
#include <vector>

#include "runs/numbers.h"

namespace report {

/// One line of a chart.
struct Series {
  std::string name;
  std::vector<runs::Point> points;  ///< x ascending; values that are not finite are left out
  int style = 0;                    ///< which colour, dash and marker: the same one for a run everywhere
};

struct Chart {
  std::string title;
  std::string x;  ///< what is on the axis, with its unit
  std::string y;
  std::vector<Series> series;
  bool from_zero = false;  ///< the y axis begins at 0
  bool counts = true;      ///< x is a whole number, and so is each tick
};

/// How many styles there are until they repeat.
constexpr int style_count = 8;

/// Round numbers that divide a range, at least two, at most about `wanted`.
std::vector<double> ticks(double low, double high, int wanted);

/// An <svg> that takes its colours from the page's style sheet (page.h); empty if no series has a point.
std::string svg_of(const Chart& chart);

/// What a style looks like, for a legend.
std::string svg_key(int style);

}  // namespace report
