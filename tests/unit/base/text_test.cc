#include <capstan/base/text.h>
#include <capstan_catch.h>

namespace text_test {

using namespace capstan;

TEST_CASE("the nearest name is found within a third of its length, and no further") {
  const std::vector<std::string> names{"max_steps", "micro_batch", "global_batch", "lr"};
  CHECK(nearest_name("max_step", names) == "max_steps");
  CHECK(nearest_name("mirco_batch", names) == "micro_batch");
  CHECK(nearest_name("rl", names) == "lr");
  CHECK(nearest_name("temperature", names).empty());
  CHECK(suggestion("temperature", {"a", "b"}) == "one of: a, b");
}

TEST_CASE("numbers are written for people") {
  CHECK(thousands(0) == "0");
  CHECK(thousands(999) == "999");
  CHECK(thousands(-1234567) == "-1,234,567");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(12) == "12 B");
  CHECK(duration_text(3725) == "1:02:05");
  CHECK(duration_text(65.4) == "1:05");
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(1e-5) == "1e-05");
}

TEST_CASE("split, trim and tables") {
  CHECK(split("a,b,,c", ',') == std::vector<std::string>{"a", "b", "", "c"});
  CHECK(split("", ',').empty());
  CHECK(split("a,", ',') == std::vector<std::string>{"a", ""});
  CHECK(trim(" \t a b\n") == "a b");
  CHECK(table_text({{"key", "value"}, {"a", "1"}}) == "key  value\na    1\n");
  CHECK(table_text({{"é", "x"}, {"ab", "y"}}) == "é   x\nab  y\n");
}

}  // namespace text_test
