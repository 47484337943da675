#include "table.h"

#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cstdlib>

namespace report {

using namespace capstan;

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

/// How a format writes a text that may come from a file.
using Escape = std::string (*)(const std::string& text);

std::string as_it_is(const std::string& text) { return text; }
std::string plain_text(const std::string& text) { return printable(text); }

std::vector<std::vector<std::string>> shown_rows(const Table& table, Footnotes& notes, Escape escape) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : table.rows) {
    auto& texts = rows.emplace_back();
    for (const auto& one : row) texts.push_back(one.missing.empty() ? escape(one.text) : cat("-", notes.mark(one)));
  }
  return rows;
}

std::vector<std::string> all_notes(const Table& table) {
  std::vector<std::string> all;
  for (const auto& warning : table.warnings) all.push_back("Warning: " + warning);
  all.insert(all.end(), table.notes.begin(), table.notes.end());
  return all;
}

std::string footnote_lines(const Table& table, const Footnotes& notes, const char* bullet, Escape escape,
                           const char* end = "\n") {
  std::string out;
  for (std::size_t i = 0; i < notes.reasons.size(); ++i)
    out += cat(bullet, "[", i + 1, "] ", escape(notes.reasons[i]), end);
  for (const auto& note : all_notes(table)) out += cat(bullet, escape(note), end);
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// With or without commas between thousands.
bool is_number(const std::string& text) {
  const auto plain = replaced(text, ",", "");
  char* end = nullptr;
  (void)std::strtod(plain.c_str(), &end);
  return !plain.empty() && *end == '\0';
}

// A spreadsheet computes a cell that begins like a formula, whoever wrote it.
std::string no_formula(const std::string& text) {
  const bool may_be_formula = text.find_first_of("=+-@") == 0;
  return may_be_formula && !is_number(text) ? "'" + text : text;
}

std::string csv_cell(const std::string& given) {
  auto text = no_formula(printable(given));
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return cat("\"", replaced(text, "\"", "\"\""), "\"");
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::vector<std::string> texts;
  for (const auto& one : cells) texts.push_back(csv_cell(one));
  return join(texts, ",") + "\r\n";
}

// What Markdown would take for emphasis, a link, HTML, code or a cell's end.
std::string markdown_text(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("\\`*_[]<>&|~").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const auto& one : cells) out += cat(" ", one, " |");
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
  auto rows = shown_rows(table, notes, as_it_is);  // table_text() makes cells printable
  rows.insert(rows.begin(), table.head);
  return cat(printable(table.title), "\n\n", table_text(rows), "\n", footnote_lines(table, notes, "  ", plain_text));
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
  std::vector<std::string> head;
  for (const auto& one : table.head) head.push_back(markdown_text(one));
  auto out = cat("### ", markdown_text(table.title), "\n\n", markdown_row(head),
                 markdown_row(std::vector<std::string>(head.size(), "---")));
  for (const auto& row : shown_rows(table, notes, markdown_text)) out += markdown_row(row);
  return cat(out, "\n", footnote_lines(table, notes, "- ", markdown_text));
}

std::string html_of(const Table& table) {
  Footnotes notes;
  std::string rows;
  for (const auto& row : shown_rows(table, notes, as_it_is)) rows += html_row(row, "td");
  return cat("<section><h2>", html_text(table.title), "</h2>\n<div class=\"wide\"><table><thead>",
             html_row(table.head, "th"), "</thead><tbody>\n", rows, "</tbody></table></div>\n<ul class=\"notes\">\n",
             footnote_lines(table, notes, "<li>", html_text, "</li>\n"), "</ul></section>\n");
}

}  // namespace report
