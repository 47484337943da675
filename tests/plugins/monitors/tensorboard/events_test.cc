#include "plugins/monitors/tensorboard/events.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan_catch.h>

#include "support/folder.h"

using namespace tensorboard;

TEST_CASE("checksums are CRC-32C, masked as TFRecord files have them") {
  // RFC 3720, appendix B.4: 32 bytes of zeros have 0x8a9136aa.
  const std::uint32_t plain = 0x8A9136AA;
  CHECK(masked_crc(std::string(32, '\0')) == ((plain >> 15U) | (plain << 17U)) + 0xA282EAD8U);
  const auto bytes = record("abc");
  CHECK(bytes.size() == 8 + 4 + 3 + 4);
  CHECK(bytes.substr(0, 8) == std::string("\3\0\0\0\0\0\0\0", 8));
  CHECK(bytes.substr(12, 3) == "abc");
}

TEST_CASE("each call leaves whole records in the file") {
  const test::Folder folder;
  EventFile file(folder / "events.out.tfevents.1.host.2.0", 1);
  const auto version = capstan::read_file(folder / "events.out.tfevents.1.host.2.0");
  CHECK_THAT(version, Contains("brain.Event:2"));
  file.scalars(2, 1, {{"train/loss", 1.5}});
  const auto scalars = capstan::read_file(folder / "events.out.tfevents.1.host.2.0");
  CHECK(scalars.starts_with(version));
  CHECK_THAT(scalars, Contains("train/loss"));
}

TEST_CASE("a folder that cannot be written to is named") {
  CHECK_THROWS_AS(EventFile("/nowhere/at/all/events", 1), capstan::FileError);
}
