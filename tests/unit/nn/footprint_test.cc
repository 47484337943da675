#include <capstan/layout/footprint.h>
#include <capstan_catch.h>

namespace footprint_test {

using namespace capstan::layout;

TEST_CASE("footprints add up by device") {
  const std::vector<Footprint> parts{
      {"parameters", 1024, "cuda", "always"}, {"optimizer", 2048, "cpu", "always"}, {"gradients", 512, "cuda", "step"}};
  CHECK(total_bytes(parts, "cuda") == 1536);
  CHECK(total_bytes(parts, "cpu") == 2048);
  CHECK(footprint_table(parts) ==
        "part        device  when    memory\n"
        "parameters  cuda    always  1.00 KiB\n"
        "optimizer   cpu     always  2.00 KiB\n"
        "gradients   cuda    step    512 B\n"
        "sum         cuda            1.50 KiB\n"
        "sum         cpu             2.00 KiB\n");
  CHECK_THAT(footprint_table(parts, {{"training's peak", 1024, "cuda", "backward of a"}}),
             Catch::Matchers::EndsWith("training's peak  cuda    backward of a  1.00 KiB\n"));
}

}  // namespace footprint_test
