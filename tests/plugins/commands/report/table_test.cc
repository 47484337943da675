#include "plugins/commands/report/table.h"

#include <capstan_catch.h>

namespace table_test {

using namespace report;

TEST_CASE("a table as text, CSV, Markdown and HTML") {
  const Table table{
      "x", "A <title>", {"a|b", "c,d"}, {{cell("1\"2"), no_cell("none")}, {cell("<3"), cell("4")}}, {"A note"}};
  CHECK(csv_of(table) == "a|b,\"c,d\"\r\n\"1\"\"2\",\r\n<3,4\r\n");
  CHECK(markdown_of(table) ==
        "### A \\<title\\>\n\n| a\\|b | c,d |\n| --- | --- |\n| 1\"2 | -[1] |\n| \\<3 | 4 |\n\n- [1] none\n- A note\n");
  CHECK_THAT(text_of(table), Contains("A <title>\n\na|b  c,d") && Contains("  [1] none\n  A note\n"));
  CHECK_THAT(html_of(table), Contains("<h2>A &lt;title&gt;</h2>") && Contains("<th scope=\"row\">&lt;3</th>") &&
                                 Contains("<li>[1] none</li>"));
}

TEST_CASE("what a file put into a table is text in every format") {
  const Table table{"x",
                    "T",
                    {"a"},
                    {{cell("=1+1")}, {cell("@x")}, {cell("-x")}, {cell("-1.5")}, {cell("-1,234")}, {cell("+2")}},
                    // NOLINTNEXTLINE(misc-misleading-bidirectional): it is what is tested
                    {"note \033[2J\n\u202e*of* a [run](x)"}};
  CHECK(csv_of(table) == "a\r\n'=1+1\r\n'@x\r\n'-x\r\n-1.5\r\n\"-1,234\"\r\n+2\r\n");
  CHECK_THAT(text_of(table), Contains("  note \\x1b[2J\\n\\u202e*of* a [run](x)\n"));
  CHECK_THAT(markdown_of(table), Contains("- note \\\\x1b\\[2J\\\\n\\\\u202e\\*of\\* a \\[run\\](x)\n"));
}

TEST_CASE("what columns mean is no part of the table's section, and the best row is marked in every format but CSV") {
  Table table{"x", "T", {"Run", "Loss"}, {{cell("a-1"), cell("2")}, {cell("b-2"), cell("1")}}, {"Loss: the mean"}};
  table.facts = {"Best: b-2"};
  table.best = 1;
  CHECK_THAT(html_of(table),
             Contains("<tr class=\"best\"><th scope=\"row\"><span class=\"word\">b-2</span> (best)</th>") &&
                 Contains("<li>Best: <span class=\"word\">b-2</span></li>") && !Contains("the mean"));
  CHECK_THAT(markdown_of(table), Contains("| b-2 (best) | 1 |") && Contains("| a-1 | 2 |"));
  CHECK_THAT(text_of(table), Contains("b-2 (best)  1\n") && Contains("  Best: b-2\n  Loss: the mean\n"));
  CHECK(csv_of(table) == "Run,Loss\r\na-1,2\r\nb-2,1\r\n");
}

}  // namespace table_test
