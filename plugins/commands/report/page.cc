#include "page.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <array>

#include "pages/page.h"

namespace report {

using namespace capstan;
using namespace runs;

namespace {

struct Style {
  const char* light;
  const char* dark;
  const char* dashes;
};

// The colours of Okabe and Ito, darker on white and lighter on black where their contrast is too small.
constexpr std::array<Style, style_count> styles{{{"#0072b2", "#56b4e9", "none"},
                                                 {"#d55e00", "#f08a3c", "8 4"},
                                                 {"#00795a", "#2bc79a", "2 3"},
                                                 {"#a8487c", "#e39bc3", "10 3 2 3"},
                                                 {"#8a6100", "#e69f00", "none"},
                                                 {"#1c7fa6", "#8fd0f2", "8 4"},
                                                 {"#6b5b00", "#f0e442", "2 3"},
                                                 {"#444444", "#cccccc", "10 3 2 3"}}};

std::string series_css() {
  std::string light;
  std::string dark;
  std::string rules;
  for (std::size_t i = 0; i < styles.size(); ++i) {
    light += cat("--s", i, ":", styles[i].light, ";");
    dark += cat("--s", i, ":", styles[i].dark, ";");
    rules += cat(".s", i, " polyline{stroke:var(--s", i, ");stroke-dasharray:", styles[i].dashes, "}.s", i,
                 " :not(polyline){fill:var(--s", i, ")}\n");
  }
  return pages::variables_css(light, dark) + rules;
}

std::string legend(const Chart& chart) {
  const auto covered = covers_of(chart);
  std::string out = "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    if (chart.series[i].points.empty()) continue;
    const auto same = covered[i] ? cat(", on the line of ", chart.series[*covered[i]].name) : "";
    const auto text = html_text(chart.series[i].name + same);
    out += cat("<li title=\"", text, "\">", svg_key(i), " ", text, "</li>\n");
  }
  return out + "</ul>\n";
}

std::string charts_html(const std::vector<Chart>& charts) {
  if (charts.empty()) return {};
  std::string out = "<section><h2>Plots</h2>\n<div class=\"charts\">\n";
  for (const auto& chart : charts) {
    out += cat("<figure><h3>", html_text(chart.title), "</h3>\n", svg_of(chart), legend(chart),
               chart.note.empty() ? "" : cat("<p>", html_text(chart.note), "</p>\n"), "</figure>\n");
  }
  return out + "</div></section>\n";
}

// What the tables' columns mean, each once.
std::string definitions_html(const std::vector<Table>& tables) {
  std::vector<std::string> seen;
  std::string lines;
  for (const auto& table : tables) {
    for (const auto& note : table.notes) {
      if (std::find(seen.begin(), seen.end(), note) != seen.end()) continue;
      seen.push_back(note);
      lines += cat("<li>", html_text(note), "</li>\n");
    }
  }
  if (lines.empty()) return {};
  return cat("<details><summary>What the columns mean</summary>\n<ul class=\"notes\">\n", lines, "</ul></details>\n");
}

}  // namespace

std::string page_of(const std::string& title, const std::vector<Table>& tables, const std::vector<Run>& runs,
                    const Run& base) {
  std::string body;
  for (const auto& table : tables) body += html_of(table);
  return pages::page_of(title, series_css(), body + charts_html(charts_of(runs, base)) + definitions_html(tables));
}

}  // namespace report
