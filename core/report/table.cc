#include "report/table.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace capstan::report {
namespace {

// The footnotes: reasons for missing cells, numbered as they appear, then what the columns mean.
struct Footnotes {
  std::vector<std::string> reasons;

  std::string mark(const Cell& one) {
    if (one.missing.empty()) return {};
    auto found = std::find(reasons.begin(), reasons.end(), one.missing);
    if (found == reasons.end()) found = reasons.insert(reasons.end(), one.missing);
    return cat("[", found - reasons.begin() + 1, "]");
  }
};

std::string shown(const Cell& one, Footnotes& notes) {
  return one.missing.empty() ? one.text : cat("-", notes.mark(one));
}

std::vector<std::vector<std::string>> shown_rows(const Table& table, Footnotes& notes) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : table.rows) {
    auto& texts = rows.emplace_back();
    for (const auto& one : row) texts.push_back(shown(one, notes));
  }
  return rows;
}

std::string footnote_lines(const Table& table, const Footnotes& notes, const char* bullet) {
  std::string out;
  for (std::size_t i = 0; i < notes.reasons.size(); ++i) out += cat(bullet, "[", i + 1, "] ", notes.reasons[i], "\n");
  for (const auto& note : table.notes) out += cat(bullet, note, "\n");
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return cat("\"", replaced(text, "\"", "\"\""), "\"");
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::vector<std::string> texts;
  for (const auto& one : cells) texts.push_back(csv_cell(one));
  return join(texts, ",") + "\r\n";
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const auto& one : cells) out += cat(" ", replaced(one, "|", "\\|"), " |");
  return out + "\n";
}

std::string html_row(const std::vector<std::string>& cells, const char* tag) {
  std::string out = "<tr>";
  for (const auto& one : cells) out += cat("<", tag, ">", html_text(one), "</", tag, ">");
  return out + "</tr>\n";
}

}  // namespace

std::string html_text(const std::string& text) {
  return replaced(replaced(replaced(replaced(text, "&", "&amp;"), "<", "&lt;"), ">", "&gt;"), "\"", "&quot;");
}

std::string text_of(const Table& table) {
  Footnotes notes;
  auto rows = shown_rows(table, notes);
  rows.insert(rows.begin(), table.head);
  return cat(table.title, "\n\n", table_text(rows), "\n", footnote_lines(table, notes, "  "));
}

std::string csv_of(const Table& table) {
  auto out = csv_line(table.head);
  for (const auto& row : table.rows) {
    std::vector<std::string> texts;
    for (const auto& one : row) texts.push_back(one.text);
    out += csv_line(texts);
  }
  return out;
}

std::string markdown_of(const Table& table) {
  Footnotes notes;
  auto out = cat("### ", table.title, "\n\n", markdown_row(table.head),
                 markdown_row(std::vector<std::string>(table.head.size(), "---")));
  for (const auto& row : shown_rows(table, notes)) out += markdown_row(row);
  return cat(out, "\n", footnote_lines(table, notes, "- "));
}

std::string html_of(const Table& table) {
  Footnotes notes;
  std::string rows;
  for (const auto& row : shown_rows(table, notes)) rows += html_row(row, "td");
  auto out =
      cat("<section><h2>", html_text(table.title), "</h2>\n<div class=\"wide\"><table><thead>",
          html_row(table.head, "th"), "</thead><tbody>\n", rows, "</tbody></table></div>\n<ul class=\"notes\">\n");
  for (std::size_t i = 0; i < notes.reasons.size(); ++i)
    out += cat("<li>[", i + 1, "] ", html_text(notes.reasons[i]), "</li>\n");
  for (const auto& note : table.notes) out += cat("<li>", html_text(note), "</li>\n");
  return out + "</ul></section>\n";
}

}  // namespace capstan::report
