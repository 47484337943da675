#include "plugins/monitors/wandb/records.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

#include <cstddef>
#include <string>

#include "support/folder.h"

namespace records_test {

using namespace wandb;

namespace {

// The kinds of the frames and what they hold: LevelDB's log in blocks of 32 KiB, after a header of the file.
struct Frames {
  std::string kinds;
  std::string bytes;
};

Frames frames_of(const std::string& log) {
  constexpr std::size_t block = 32768, header = 7;
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(log.at(at))); };
  Frames frames;
  for (std::size_t at = header; at < log.size();) {
    if (const auto room = block - at % block; room < header) {
      at += room;
      continue;
    }
    const auto size = byte(at + 4) + 256 * byte(at + 5);
    REQUIRE(at % block + header + size <= block);
    frames.kinds += log.at(at + 6);
    frames.bytes += log.substr(at + header, size);
    at += header + size;
  }
  return frames;
}

}  // namespace

TEST_CASE("a record that is longer than a block continues in the next ones") {
  const test::Folder folder;
  RunFacts facts;
  facts.id = "a1b2c3d4";
  facts.name = "small";
  facts.project = "tests";
  RunLog log(folder / "run.wandb", facts);
  // The header, the run, and two definitions of metrics.
  CHECK(frames_of(capstan::read_file(folder / "run.wandb")).kinds == "\1\1\1\1");
  const std::string text(100000, 'x');
  log.summary({{"text", text}});
  const auto frames = frames_of(capstan::read_file(folder / "run.wandb"));
  CHECK(frames.kinds == "\1\1\1\1\2\3\3\4");
  CHECK(frames.bytes.find(text) != std::string::npos);
}

}  // namespace records_test
