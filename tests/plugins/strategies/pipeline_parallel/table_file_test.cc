// Tables from files: our form and PyTorch's, and what is wrong with one by line and cell.
#include "plugins/strategies/pipeline_parallel/table_file.h"

#include <capstan_catch.h>

#include "plugins/strategies/pipeline_parallel/schedules.h"
#include "rows.h"
#include "support/errors.h"

namespace table_file_test {

using namespace pipeline_parallel;

namespace {

const std::string two =
    "0F0,0F1,,0B0,0B1\n"
    ",1F0,1B0,1F1,1B1\n";

std::string error_of(const std::string& text) {
  return test::error_of([&] { (void)table_of(text, "mine.csv"); });
}

}  // namespace

TEST_CASE("a line a rank, with time in which it waits, comments and empty lines") {
  const auto [table, micros] = table_of("# mine\n\n" + two, "mine.csv");
  CHECK(micros == 2);
  CHECK(table.positions == std::vector<int>{0, 1});
  CHECK(text_of(table) == text_of(one_forward_one_backward(2, 1, 2)));
}

TEST_CASE("PyTorch's form: transfers and gathers are skipped, what overlaps runs one after the other") {
  const auto [table, micros] = table_of(
      "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,(0W0;0I1)OVERLAP_F_B,0W1,0RESHARD\r\n"
      "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\r\n",
      "torch.csv");
  CHECK(micros == 2);
  CHECK(text_of(table) == "0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1B0 1F1 1B1");
}

TEST_CASE("stages may be on any position") {
  const auto table = table_of("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "v.csv").table;
  CHECK(table.positions == std::vector<int>{0, 1, 1, 0});
}

TEST_CASE("what is no table is refused with its line and cell") {
  CHECK_THAT(error_of(""), Contains("no line has an action") && Contains("mine.csv"));
  CHECK_THAT(
      error_of("0F0,0B0\n1F0,1X0,1B0\n"),
      Contains("mine.csv:2: cell 2 is '1X0', which is no action of a pipeline") && Contains("0B3 (its backward)"));
  for (const std::string cell : {"F0", "0F", "0F-1", "0F0x", "(0F0;0B0", "(0F0)OVERLAP", "99999999999F0"}) {
    INFO(cell);
    CHECK_THAT(error_of(cell + "\n"), Contains("which is no action of a pipeline"));
  }
  CHECK_THAT(error_of("0F0,0B0\n0SEND_F0\n"), Contains("mine.csv:2: the line has no action"));
  CHECK_THAT(error_of("0F0,0B0\n2F0,2B0\n"), Contains("no line has stage 1, and one has stage 2"));
}

TEST_CASE("what is wrong with a table names the line, the position and the action") {
  CHECK_THAT(error_of("# by hand\n0F0,0B0\n1F0,,1B0,0F1\n"),
             Contains("mine.csv:3: position 1, cell 4, 0F1: stage 0 is computed by line 2 already"));
  CHECK_THAT(error_of("0F0,0B0,0F0\n"), Contains("mine.csv:1: position 0, cell 3, 0F0: it is done twice"));
  CHECK_THAT(error_of("0F0,0B0\n1F0\n"), Contains("mine.csv:2: position 1, there is no 1B0"));
  CHECK_THAT(error_of("0F0,0B0,0F1,0B1\n1F0,1F1,1B1,1B0\n"),
             Contains("mine.csv:1: position 0, cell 2, 0B0: it waits for ever: position 1 does not get to 1B0, since "
                      "it waits at 1F1"));
}

}  // namespace table_file_test
