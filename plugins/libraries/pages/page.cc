#include "page.h"

#include <capstan/base/text.h>

#include <string_view>

namespace pages {

using capstan::cat;

namespace {

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

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

}  // namespace

std::string html_text(const std::string& text) {
  return replaced(replaced(replaced(replaced(text, "&", "&amp;"), "<", "&lt;"), ">", "&gt;"), "\"", "&quot;");
}

std::string variables_css(const std::string& light, const std::string& dark) {
  return cat(":root{", light, "}\n@media (prefers-color-scheme: dark){:root{", dark, "}}\n");
}

std::string page_of(const std::string& title, const std::string& css, const std::string& body) {
  const auto colours =
      variables_css("--page:#ffffff;--ink:#1b1b1b;--soft:#5b5b5b;--line:#d9d9d9;--head:#f3f3f3;--best:#eef6ee;",
                    "--page:#14171a;--ink:#ececec;--soft:#a9b0b6;--line:#363c42;--head:#1f2428;--best:#1d2b20;");
  return cat("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", html_text(title),
             "</title>\n<style>\n", layout_css, colours, css, "</style></head><body>\n<h1>", html_text(title),
             "</h1>\n", body, "</body></html>\n");
}

}  // namespace pages
