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

// The drawing's size and the plot's place in it, in SVG's units.
constexpr double width = 640;
constexpr double height = 320;
constexpr double left = 64;
constexpr double right = 16;
constexpr double top = 12;
constexpr double bottom = 44;
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

std::string label(double x, double y, const char* anchor, const std::string& text, const std::string& more = {}) {
  return cat("<text x=\"", place(x), "\" y=\"", place(y), "\" text-anchor=\"", anchor, "\"", more, ">", html_text(text),
             "</text>\n");
}

std::string axes(const Chart& chart, const Scale& scale) {
  std::string out;
  auto across = ticks(scale.x.low, scale.x.high, 8);
  if (chart.counts) std::erase_if(across, [](double value) { return std::abs(value - std::round(value)) > 1e-6; });
  const auto up = ticks(scale.y.low, scale.y.high, 6);
  for (const double value : up) {
    out += line_of(left, scale.at_y(value), width - right, scale.at_y(value), "grid");
    out += label(left - 6, scale.at_y(value) + 4, "end", tick_text(value, up[1] - up[0]));
  }
  for (const double value : across) {
    out += line_of(scale.at_x(value), height - bottom, scale.at_x(value), height - bottom + 4, "axis");
    out += label(scale.at_x(value), height - bottom + 17, "middle",
                 tick_text(value, chart.counts ? 1 : across[1] - across[0]));
  }
  out += line_of(left, height - bottom, width - right, height - bottom, "axis");
  out += label((left + width - right) / 2, height - 6, "middle", chart.x);
  const double middle = (top + height - bottom) / 2;
  out += label(14, middle, "middle", chart.y, cat(" transform=\"rotate(-90 14 ", place(middle), ")\""));
  return out;
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

std::string drawn(const Series& series, std::size_t style, const Scale& scale) {
  const auto points = thinned(series.points, most_points);
  std::string path;
  for (const auto& [x, y] : points)
    path += cat(path.empty() ? "" : " ", place(scale.at_x(x)), ",", place(scale.at_y(y)));
  if (path.empty()) return {};
  auto out = cat("<g class=\"s", style % style_count, "\"><title>", html_text(series.name),
                 "</title><polyline points=\"", path, "\"/>");
  const auto every = std::max<std::size_t>(1, points.size() / 6);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % every == 0 || i + 1 == points.size())
      out += marker(style, scale.at_x(points[i].first), scale.at_y(points[i].second));
  }
  return out + "</g>\n";
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

std::string svg_of(const Chart& chart) {
  Scale scale;
  for (const auto& series : chart.series) {
    for (const auto& point : thinned(series.points, most_points)) {
      scale.x.take(point.first);
      scale.y.take(point.second);
    }
  }
  if (chart.from_zero) scale.y.take(0);
  scale.x.widen();
  scale.y.widen();
  const double margin = 0.04 * (scale.y.high - scale.y.low);
  scale.y.high += margin;
  if (!chart.from_zero || scale.y.low < 0) scale.y.low -= margin;
  auto out = cat("<svg viewBox=\"0 0 ", width, " ", height, R"(" role="img" aria-label=")", html_text(chart.title),
                 "\">\n", axes(chart, scale));
  for (std::size_t i = 0; i < chart.series.size(); ++i) out += drawn(chart.series[i], i, scale);
  return out + "</svg>\n";
}

std::string svg_key(std::size_t style) {
  return cat(R"(<svg class="key" viewBox="0 0 44 12" aria-hidden="true"><g class="s)", style % style_count,
             R"("><polyline points="1,6 43,6"/>)", marker(style, 22, 6), "</g></svg>");
}

}  // namespace report
