#include "page.h"

#include <capstan/base/text.h>

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
  return cat(":root{--page:#ffffff;--ink:#1b1b1b;--soft:#5b5b5b;--line:#d9d9d9;--head:#f3f3f3;", light,
             "}\n@media (prefers-color-scheme: dark){:root{--page:#14171a;--ink:#ececec;--soft:#a9b0b6;--line:#363c42;"
             "--head:#1f2428;",
             dark, "}}\n", rules);
}

constexpr const char* layout_css = R"(:root{color-scheme:light dark}
body{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1360px;padding:24px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 8px}h3{font-size:15px;margin:0 0 4px}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{border-bottom:1px solid var(--line);padding:6px 12px;text-align:left;vertical-align:top}
th{background:var(--head)}.notes{color:var(--soft);font-size:13px;padding-left:18px}
.charts{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr))}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;padding:0;font-size:13px}
svg{display:block;width:100%;height:auto}svg.key{display:inline-block;width:44px;height:12px;vertical-align:middle}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}
polyline{fill:none;stroke-width:2;stroke-linejoin:round}
.grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}
)";

std::string legend(const std::vector<Series>& series) {
  std::string out = "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (!series[i].points.empty()) out += cat("<li>", svg_key(i), " ", html_text(series[i].name), "</li>\n");
  }
  return out + "</ul>\n";
}

std::string charts_html(const std::vector<Chart>& charts) {
  if (charts.empty()) return {};
  std::string out = "<section><h2>Plots</h2>\n<div class=\"charts\">\n";
  for (const auto& chart : charts) {
    out += cat("<figure style=\"margin:0\"><h3>", html_text(chart.title), "</h3>\n", svg_of(chart),
               legend(chart.series), "</figure>\n");
  }
  return out + "</div></section>\n";
}

}  // namespace

std::string page_of(const std::string& title, const std::vector<Table>& tables, const std::vector<Run>& runs,
                    const Run& base) {
  std::string body;
  for (const auto& table : tables) body += html_of(table);
  return cat("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", html_text(title),
             "</title>\n<style>\n", layout_css, series_css(), "</style></head><body>\n<h1>", html_text(title),
             "</h1>\n", body, charts_html(charts_of(runs, base)), "</body></html>\n");
}

}  // namespace report
