#pragma once
#include <string>

namespace pages {

/// A text's characters that HTML gives a meaning, escaped.
std::string html_text(const std::string& text);

/// One HTML page that needs nothing but itself: no script, no network. It is light or dark as the browser prefers, and
/// fits a phone. `css` follows the page's own style sheet, whose colours it may use: --page, --ink, --soft, --line,
/// --head, --best.
std::string page_of(const std::string& title, const std::string& css, const std::string& body);

/// CSS that gives variables values, which differ where a browser prefers dark pages.
std::string variables_css(const std::string& light, const std::string& dark);

}  // namespace pages
