#include "chart.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "table.h"

namespace report {

using namespace capstan;
using namespace runs;

namespace {

// The drawing's size and the plot's place in it, in SVG's units. Margins have room for a phone's letters, which are
// larger in these units (page.cc).
constexpr double width = 640;
constexpr double height = 340;
constexpr double left = 74;
constexpr double right = 18;
constexpr double top = 34;
constexpr double bottom = 56;
constexpr std::size_t most_points = 150;  // more hides one noisy run under the next

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen() {
    if (high > low) return;
    const double by = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= by;
    high += by;
  }
};

// Where values of the chart are in the drawing.
struct Scale {
  Range x;
  Range y;
  double at_x(double value) const { return left + (value - x.low) / (x.high - x.low) * (width - left - right); }
  double at_y(double value) const {
    return height - bottom - (value - y.low) / (y.high - y.low) * (height - top - bottom);
  }
};

std::string place(double value) { return fixed(value, 1); }

// Without digits that no reader needs: 0.00005 as 5e-05, 1500 as 1500.
std::string tick_text(double value, double step) {
  if (std::abs(value) < step * 1e-6) return "0";
  if (step >= 1e-3 && std::abs(value) < 1e6) {
    const int decimals = step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
    return fixed(value, decimals);
  }
  const auto digits = static_cast<int>(std::floor(std::log10(std::abs(value) / step) + 1e-9)) + 1;
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.*g", std::clamp(digits, 3, 12), value);
  return out.data();
}

std::string line_of(double x1, double y1, double x2, double y2, const char* kind) {
  return cat("<line class=\"", kind, "\" x1=\"", place(x1), "\" y1=\"", place(y1), "\" x2=\"", place(x2), "\" y2=\"",
             place(y2), "\"/>\n");
}

std::string label(double x, double y, const char* kind, const std::string& text) {
  return cat("<text class=\"", kind, "\" x=\"", place(x), "\" y=\"", place(y), "\">", html_text(text), "</text>\n");
}

std::string axes(const Chart& chart, const Scale& scale) {
  std::string out;
  auto across = ticks(scale.x.low, scale.x.high, 6);
  if (chart.counts) std::erase_if(across, [](double value) { return std::abs(value - std::round(value)) > 1e-6; });
  const auto up = ticks(scale.y.low, scale.y.high, 6);
  for (const double value : up) {
    out += line_of(left, scale.at_y(value), width - right, scale.at_y(value), "grid");
    out += label(left - 6, scale.at_y(value) + 5, "y", tick_text(value, up[1] - up[0]));
  }
  for (const double value : across) {
    out += line_of(scale.at_x(value), height - bottom, scale.at_x(value), height - bottom + 4, "axis");
    out +=
        label(scale.at_x(value), height - bottom + 22, "x", tick_text(value, chart.counts ? 1 : across[1] - across[0]));
  }
  out += line_of(left, height - bottom, width - right, height - bottom, "axis");
  out += label((left + width - right) / 2, height - 8, "x name", chart.x);
  return out + label(2, 18, "name", chart.y);
}

// Each style has a shape of its own, so that no reader depends on colours.
std::string marker(std::size_t style, double x, double y) {
  const auto at = [&](double dx, double dy) { return cat(place(x + dx), ",", place(y + dy), " "); };
  switch (style % 4) {
    case 0:
      return cat("<circle cx=\"", place(x), "\" cy=\"", place(y), R"(" r="3.5"/>)");
    case 1:
      return cat("<rect x=\"", place(x - 3), "\" y=\"", place(y - 3), R"(" width="6" height="6"/>)");
    case 2:
      return cat("<polygon points=\"", at(0, -4), at(4, 3), at(-4, 3), "\"/>");
    default:
      return cat("<polygon points=\"", at(0, -4.5), at(4.5, 0), at(0, 4.5), at(-4.5, 0), "\"/>");
  }
}

std::vector<Point> drawn_points(const std::vector<Point>& points, const Scale& scale) {
  auto drawn = thinned(points, most_points);
  for (auto& [x, y] : drawn) {
    x = scale.at_x(x);
    y = scale.at_y(y);
  }
  return drawn;
}

std::string polyline(const std::vector<Point>& points, const std::string& more) {
  std::string path;
  for (const auto& [x, y] : points) path += cat(path.empty() ? "" : " ", place(x), ",", place(y));
  return cat("<polyline", more, " points=\"", path, "\"/>");
}

// A series whose line others cover is drawn as a wide band, on which they lie. Markers of the series are at other
// places.
std::string drawn(const Chart& chart, std::size_t i, const Scale& scale, std::size_t covers) {
  constexpr std::size_t markers = 6;
  const auto& series = chart.series[i];
  const auto points = drawn_points(series.points, scale);
  if (points.empty()) return {};
  auto out = cat("<g class=\"s", i % style_count, "\"><title>", html_text(series.name), "</title>");
  if (!series.raw.empty()) out += polyline(drawn_points(series.raw, scale), R"( class="raw")");
  out += polyline(points, covers == 0 ? "" : cat(" style=\"stroke-dasharray:none;stroke-width:", 2 + 4 * covers, "\""));
  const auto every = std::max<std::size_t>(1, points.size() / markers);
  const auto shift = every * (i % chart.series.size()) / chart.series.size();
  for (auto at = shift; at < points.size(); at += every) out += marker(i, points[at].first, points[at].second);
  return out + "</g>\n";
}

Scale scale_of(const Chart& chart) {
  Scale scale;
  for (const auto& series : chart.series) {
    for (const auto* points : {&series.points, &series.raw}) {
      for (const auto& point : thinned(*points, most_points)) {
        scale.x.take(point.first);
        scale.y.take(point.second);
      }
    }
  }
  if (chart.from_zero) scale.y.take(0);
  scale.x.widen();
  scale.y.widen();
  const double margin = 0.04 * (scale.y.high - scale.y.low);
  scale.y.high += margin;
  if (!chart.from_zero || scale.y.low < 0) scale.y.low -= margin;
  return scale;
}

// Whether each point of the first line lies on the second one, nearer than a line is wide.
bool lies_on(const std::vector<Point>& line, const std::vector<Point>& other) {
  constexpr double apart = 1.5;
  const auto is_on = [&](const Point& point) {
    const double x = point.first;
    const double y = point.second;
    const auto next = std::find_if(other.begin(), other.end(), [&](const Point& one) { return one.first >= x - 1e-9; });
    if (next == other.end())
      return std::abs(x - other.back().first) < apart && std::abs(y - other.back().second) < apart;
    if (next == other.begin()) return std::abs(next->first - x) < apart && std::abs(next->second - y) < apart;
    const auto before = next - 1;
    const double share = (x - before->first) / (next->first - before->first);
    return std::abs(before->second + share * (next->second - before->second) - y) < apart;
  };
  return !line.empty() && !other.empty() && std::all_of(line.begin(), line.end(), is_on);
}

}  // namespace

std::vector<double> ticks(double low, double high, int wanted) {
  const double rough = (high - low) / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough * 0.999) step = factor * power;
  }
  std::vector<double> out;
  for (double value = std::ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step)
    out.push_back(value);
  if (out.size() < 2) return {low, high};
  return out;
}

std::vector<std::optional<std::size_t>> covers_of(const Chart& chart) {
  const auto scale = scale_of(chart);
  std::vector<std::vector<Point>> lines;
  std::vector<std::optional<std::size_t>> covered;
  for (const auto& series : chart.series) {
    lines.push_back(drawn_points(series.points, scale));
    const auto hidden = [&](const std::vector<Point>& earlier) { return lies_on(earlier, lines.back()); };
    const auto found = std::find_if(lines.begin(), lines.end() - 1, hidden);
    covered.emplace_back();
    if (found != lines.end() - 1) covered.back() = static_cast<std::size_t>(found - lines.begin());
  }
  return covered;
}

std::string svg_of(const Chart& chart) {
  const auto scale = scale_of(chart);
  const auto covered = covers_of(chart);
  auto out = cat("<svg viewBox=\"0 0 ", width, " ", height, R"(" role="img" aria-label=")", html_text(chart.title),
                 "\">\n", axes(chart, scale));
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const auto root = covered[i].value_or(i);
    const auto above = std::count(covered.begin() + static_cast<std::ptrdiff_t>(i) + 1, covered.end(), root);
    out += drawn(chart, i, scale, static_cast<std::size_t>(above));
  }
  return out + "</svg>\n";
}

std::string svg_key(std::size_t style) {
  return cat(R"(<svg class="key" viewBox="0 0 44 12" aria-hidden="true"><g class="s)", style % style_count,
             R"("><polyline points="1,6 43,6"/>)", marker(style, 22, 6), "</g></svg>");
}

}  // namespace report
