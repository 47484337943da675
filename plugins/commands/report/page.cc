#include "page.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <array>

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
  return cat(":root{--page:#ffffff;--ink:#1b1b1b;--soft:#5b5b5b;--line:#d9d9d9;--head:#f3f3f3;--best:#eef6ee;", light,
             "}\n@media (prefers-color-scheme: dark){:root{--page:#14171a;--ink:#ececec;--soft:#a9b0b6;--line:#363c42;"
             "--head:#1f2428;--best:#1d2b20;",
             dark, "}}\n", rules);
}

// Numbers and names are kept whole: a table that is too wide scrolls. A phone's drawing is half as large, so that its
// letters are twice as large in the drawing's units.
constexpr const char* layout_css = R"(:root{color-scheme:light dark}
body{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1360px;padding:24px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 8px}h3{font-size:15px;margin:0 0 4px}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{border-bottom:1px solid var(--line);padding:6px 12px;text-align:left;vertical-align:top}
thead th{background:var(--head);vertical-align:bottom}tbody tr{--row:var(--page)}tbody .best{--row:var(--best)}
tbody>tr>*{background:var(--row);font-weight:normal}tbody>.best>*{font-weight:600}tbody th,.word{white-space:nowrap}
.stays th:first-child{left:0;position:sticky}
.notes{color:var(--soft);font-size:13px;overflow-wrap:anywhere;padding-left:18px}
.charts{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr))}
figure{margin:0;min-width:0}figure p{color:var(--soft);font-size:13px;margin:4px 0 0}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;margin:4px 0 0;padding:0;font-size:13px}
.legend li{max-width:100%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
details{margin:32px 0 0}summary{cursor:pointer;font-size:15px}
svg{display:block;width:100%;height:auto;overflow:visible}
svg.key{display:inline-block;width:44px;height:12px;vertical-align:middle}
svg text{fill:var(--soft);font:13px system-ui,sans-serif}text.x{text-anchor:middle}text.y{text-anchor:end}
polyline{fill:none;stroke-width:2;stroke-linejoin:round}g polyline.raw{stroke-dasharray:none;stroke-width:1;opacity:.3}
.grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}
@media (max-width:640px){body{padding:12px}th,td{padding:5px 8px;font-size:14px}svg text{font-size:21px}polyline{stroke-width:3}}
)";

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
  return cat("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", html_text(title),
             "</title>\n<style>\n", layout_css, series_css(), "</style></head><body>\n<h1>", html_text(title),
             "</h1>\n", body, charts_html(charts_of(runs, base)), definitions_html(tables), "</body></html>\n");
}

}  // namespace report
