#include "table.h"

#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cstdlib>

namespace report {

using namespace capstan;

namespace {

constexpr std::size_t text_columns = 100;

// The footnotes: reasons for missing cells, numbered as they appear.
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
  if (table.best) rows[*table.best].front() += " (best)";
  return rows;
}

// Reasons, warnings and facts.
std::vector<std::string> remarks(const Table& table, const Footnotes& notes, Escape escape) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < notes.reasons.size(); ++i) all.push_back(cat("[", i + 1, "] ", escape(notes.reasons[i])));
  for (const auto& warning : table.warnings) all.push_back("Warning: " + escape(warning));
  for (const auto& fact : table.facts) all.push_back(escape(fact));
  return all;
}

// The same, then what the columns mean.
std::vector<std::string> footnotes(const Table& table, const Footnotes& notes, Escape escape) {
  auto all = remarks(table, notes, escape);
  for (const auto& note : table.notes) all.push_back(escape(note));
  return all;
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

// A browser may break a line after a hyphen or a slash, and so in the middle of a name: each word is kept whole.
std::string html_words(const std::string& text) {
  std::vector<std::string> words;
  for (const auto& word : split(text, ' ')) {
    constexpr std::size_t narrow = 40;  // a longer word may be broken after all
    const bool may_break = word.size() <= narrow && word.find_first_of("-/") != std::string::npos;
    words.push_back(may_break ? cat("<span class=\"word\">", html_text(word), "</span>") : html_text(word));
  }
  return join(words, " ");
}

std::string html_head(const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const auto& one : cells) out += cat("<th scope=\"col\">", html_words(one), "</th>");
  return out + "</tr>\n";
}

// The first cell is what the row is called.
std::string html_row(const std::vector<std::string>& cells, bool is_best) {
  std::string out = is_best ? "<tr class=\"best\">" : "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto* const tag = i == 0 ? "th" : "td";
    out += cat("<", tag, i == 0 ? " scope=\"row\">" : ">", html_words(cells[i]), "</", tag, ">");
  }
  return out + "</tr>\n";
}

}  // namespace

std::string text_of(const Table& table) {
  Footnotes notes;
  auto rows = shown_rows(table, notes, plain_text);
  rows.insert(rows.begin(), table.head);
  for (auto& head : rows.front()) head = printable(head);
  auto out = cat(printable(table.title), "\n\n", fitted_text(rows, text_columns), "\n");
  for (const auto& note : footnotes(table, notes, plain_text)) out += wrapped(note, text_columns, "  ", "      ");
  return out;
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
  out += "\n";
  for (const auto& note : footnotes(table, notes, markdown_text)) out += cat("- ", note, "\n");
  return out;
}

std::string html_of(const Table& table) {
  Footnotes notes;
  std::string rows;
  const auto texts = shown_rows(table, notes, as_it_is);
  std::size_t longest = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    rows += html_row(texts[i], table.best == i);
    longest = std::max(longest, texts[i].front().size());
  }
  constexpr std::size_t half_a_phone = 22;  // names of fewer letters stay where they are while the numbers scroll
  std::string lines;
  for (const auto& line : remarks(table, notes, html_words)) lines += cat("<li>", line, "</li>\n");
  return cat("<section><h2>", html_text(table.title), "</h2>\n<div class=\"wide\" tabindex=\"0\"><table",
             longest <= half_a_phone ? " class=\"stays\"" : "", "><thead>", html_head(table.head), "</thead><tbody>\n",
             rows, "</tbody></table></div>\n<ul class=\"notes\">\n", lines, "</ul></section>\n");
}

}  // namespace report
