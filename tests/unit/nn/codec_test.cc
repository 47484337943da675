// What a codec can do decides which weights are its own.
#include <capstan/nn/codec.h>

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/nn/weight.h>
#include <capstan_catch.h>

#include <string>
#include <vector>

#include "support/errors.h"

namespace codec_test {

using namespace capstan;

namespace {

/// A codec that defines nothing of what it says it can do.
class Empty : public nn::Codec {
 public:
  explicit Empty(Capabilities can) : can_(can) {}
  Capabilities capabilities() const override { return can_; }
  std::string name() const override { return "empty"; }
  std::string fix() const override { return "take it out"; }

 private:
  Capabilities can_;
};

nn::Weight weight(bool trained, nn::Codec::Capabilities can) {
  auto record = nn::record("w", {4, 4}, {}, true);
  record.trainable = trained;
  nn::Weight made({record});
  made.set_codec(std::make_shared<Empty>(can));
  return made;
}

}  // namespace

TEST_CASE("a codec keeps frozen weights if it packs, and gathers trained ones if it gathers") {
  for (const bool packs : {false, true}) {
    for (const bool gathers : {false, true}) {
      for (const bool trained : {false, true}) {
        INFO("packs " << packs << ", gathers " << gathers << ", trained " << trained);
        const auto made = weight(trained, {.packs = packs, .gathers = gathers});
        CHECK((made.keeping_codec() != nullptr) == (packs && !trained));
        CHECK((made.gathering_codec() != nullptr) == (gathers && trained));
      }
    }
  }
}

TEST_CASE("a codec without a function that its capabilities need says which") {
  Empty codec({.packs = true, .computes_with_rows = true, .gathers = true, .has_files = true});
  const at::Tensor none;
  const nn::Codec::Extent extent;
  const auto lacks = [&](const std::string& function, const auto& call) {
    INFO(function);
    CHECK_THAT(test::error_of(call), Contains("the codec of strategy 'empty'") && Contains(" " + function + "()") &&
                                         Contains("take the capability out of capabilities()"));
  };
  lacks("stacked", [&] { (void)codec.stacked(); });
  lacks("bytes", [&] { (void)codec.bytes(extent); });
  lacks("encode", [&] { codec.encode(extent, none, none, {}); });
  lacks("decode", [&] { codec.decode(extent, none, none); });
  lacks("encode_rows", [&] { (void)codec.encode_rows(none, none); });
  lacks("keep_scales", [&] { codec.keep_scales(none); });
  lacks("scales_of", [&] { (void)codec.scales_of(none); });
  lacks("encode_to_gather", [&] { codec.encode_to_gather(none, none, none); });
  lacks("bind_gathered", [&] { codec.bind_gathered(none, none); });
  lacks("form", [&] { (void)codec.form(); });
  lacks("file_parts", [&] { (void)codec.file_parts({}); });
  lacks("check_matrix", [&] { codec.check_matrix({}); });
  lacks("read_matrices", [&] { codec.read_matrices(extent, 0, {}, none); });
  lacks("write_matrix", [&] { (void)codec.write_matrix({}, none, at::kFloat); });
  lacks("files_config", [&] { (void)codec.files_config({}, at::kFloat); });
}

}  // namespace codec_test
