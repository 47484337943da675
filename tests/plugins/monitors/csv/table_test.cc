#include "plugins/monitors/csv/table.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

#include <limits>

#include "support/folder.h"

namespace table_test {

using csv::Table;

TEST_CASE("a row an event, a column a name, and a new name is a new column") {
  const test::Folder folder;
  const auto file = folder / "metrics.csv";
  Table table(file, 0);
  table.add(1, {{"loss", 2.5}, {"lr", 0.25}});
  table.add(1, {{"eval", 3}});
  table.add(2, {{"lr", 0.5}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
  CHECK(capstan::read_file(file) == "step,loss,lr,eval\n1,2.5,0.25,\n1,,,3\n2,nan,0.5,\n");
}

TEST_CASE("a run that resumes drops the rows of steps that it makes again") {
  const test::Folder folder;
  const auto file = folder / "metrics.csv";
  {
    Table table(file, 0);
    for (int step = 1; step <= 4; ++step) table.add(step, {{"loss", step}});
  }
  folder.write("metrics.csv", capstan::read_file(file) + "5,");  // killed in the middle of a line
  Table table(file, 2);
  table.add(3, {{"loss", 30}});
  CHECK(capstan::read_file(file) == "step,loss\n1,1\n2,2\n3,30\n");
}

TEST_CASE("a run that starts again, or has lost the file, begins a new one") {
  const test::Folder folder;
  const auto file = folder.write("metrics.csv", "step,old\n1,2\n");
  Table(file, 0).add(1, {{"loss", 1}});
  CHECK(capstan::read_file(file) == "step,loss\n1,1\n");
  const auto lost = folder / "lost.csv";
  Table(lost, 7).add(8, {{"loss", 1}});
  CHECK(capstan::read_file(lost) == "step,loss\n8,1\n");
}

TEST_CASE("a link in the table's place is replaced, and what it led to stays") {
  const test::Folder folder;
  const auto target = folder.write("other.csv", "step,old\n1,2\n");
  for (const int keep : {0, 1}) {
    std::filesystem::remove(folder / "metrics.csv");
    std::filesystem::create_symlink(target, folder / "metrics.csv");
    Table(folder / "metrics.csv", keep).add(2, {{"loss", 1}});
    CHECK_FALSE(std::filesystem::is_symlink(folder / "metrics.csv"));
    CHECK(capstan::read_file(target) == "step,old\n1,2\n");
  }
}

TEST_CASE("an evaluation that is made again takes the place of its row") {
  const test::Folder folder;
  const auto file = folder / "metrics.csv";
  {
    Table table(file, 0);
    table.add(1, {{"loss", 1}});
    table.add(1, {{"eval/loss", 2}, {"eval/runtime", 3}});
    table.add(1, {{"eval/f1", 50}, {"eval/runtime", 4}});
  }
  Table table(file, 1);
  table.replace(1, {{"eval/f1", 60}, {"eval/runtime", 5}});
  table.replace(1, {{"eval_train/f1", 70}});
  CHECK(capstan::read_file(file) ==
        "step,loss,eval/loss,eval/runtime,eval/f1,eval_train/f1\n1,1,,,,\n1,,2,3,,\n1,,,5,60,\n1,,,,,70\n");
}

}  // namespace table_test
