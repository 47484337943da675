#include <capstan/base/files.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/header.h"
#include "checkpoint/scratch.h"
#include "support/disk_mark.h"

namespace safetensors_file_test {

using namespace capstan;
using namespace capstan::checkpoint;
using layout::Box;

TEST_CASE("who reads a tensor says which file, for the others that wait") {
  const Scratch scratch;
  write_safetensors(scratch / "a.safetensors", {{"a", at::zeros({512, 512})}});
  const SafetensorsFile file(scratch / "a.safetensors");
  const auto out = at::empty({512, 512});
  CHECK(test::is_marked("reading " + file.path().string(), [&] { file.read("a", Box::whole({512, 512}), out); }));
}

TEST_CASE("a box is that slice of the whole, converted to the dtype and strides asked for") {
  const Scratch scratch;
  const auto whole = at::arange(60, at::kFloat).view({3, 4, 5});
  write_safetensors(scratch / "a", {{"x", whole}, {"s", at::scalar_tensor(3.5)}});
  const SafetensorsFile file(scratch / "a");
  const Box box{{1, 0, 2}, {2, 3, 3}};
  const auto slice = whole.slice(0, 1, 3).slice(1, 0, 3).slice(2, 2, 5);
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    auto out = at::empty(box.size, at::TensorOptions(dtype));
    file.read("x", box, out);
    CHECK(at::equal(out, slice.to(dtype)));
    auto turned = at::empty({3, 3, 2}, at::TensorOptions(dtype));
    file.read("x", box, turned.permute({2, 0, 1}));
    CHECK(at::equal(turned, slice.to(dtype).permute({1, 2, 0})));
  }
  auto reshaped = at::empty({2, 2});
  file.read("x", {12, 5}, {{10, 3}, {2, 2}}, reshaped);
  CHECK(at::equal(reshaped, whole.view({12, 5}).slice(0, 10, 12).slice(1, 3, 5)));
  auto scalar = at::empty({});
  file.read("s", Box::whole({}), scalar);
  CHECK(scalar.item<float>() == 3.5F);
  auto nothing = at::empty({0, 4, 5});
  CHECK_NOTHROW(file.read("x", {{3, 0, 0}, {0, 4, 5}}, nothing));
  auto leaf = at::zeros({3, 4, 5}).set_requires_grad(true);
  file.read("x", Box::whole({3, 4, 5}), leaf);
  CHECK(at::equal(leaf, whole));
  CHECK(leaf.is_leaf());
}

TEST_CASE("data that another writer left unaligned is read as well") {
  const Scratch scratch;
  const std::string header = R"({"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  const auto whole = at::arange(4, at::kFloat).view({2, 2});
  const std::string data(static_cast<const char*>(whole.const_data_ptr()), 16);
  for (std::size_t spaces = 0; spaces < 8; ++spaces) {
    auto content = with_length(header + std::string(spaces, ' '));
    content += data;
    write_file(scratch / "a", content);
    auto out = at::empty({2, 1}, at::kDouble);
    SafetensorsFile(scratch / "a").read("x", {{0, 1}, {2, 1}}, out);
    CHECK(at::equal(out, whole.slice(1, 1, 2).to(at::kDouble)));
  }
}

TEST_CASE("a tensor that is not there is named, with the nearest one") {
  const Scratch scratch;
  write_safetensors(scratch / "a", {{"wte.weight", at::ones({1})}});
  const SafetensorsFile file(scratch / "a");
  CHECK(fault_of([&] { file.info("wpe.weight"); }) ==
        (scratch / "a").string() + ": it has no tensor 'wpe.weight'\n    fix: did you mean 'wte.weight'?");
}

namespace {

// The fault that opening a file of this content gives, without the file's name.
std::string opening(const std::string& content) {
  const Scratch scratch;
  write_file(scratch / "a", content);
  const auto text = fault_of([&] { SafetensorsFile(scratch / "a"); });
  const auto where = (scratch / "a").string() + ": ";
  REQUIRE(text.starts_with(where));
  return text.substr(where.size());
}

const std::string damaged = "\n    fix: it is damaged: copy or download it again";

}  // namespace

TEST_CASE("files that are cut short or longer say both sizes") {
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto content = with_length(header) + std::string(8, '\0');
  CHECK(opening("") == "it has 0 bytes, but a safetensors file starts with 8 bytes of header length" + damaged);
  CHECK(opening(content.substr(0, 20)) ==
        "truncated: its header of 54 bytes needs 62 bytes, the file has 20" + damaged);
  CHECK(opening(content.substr(0, content.size() - 3)) ==
        "truncated: its header describes 70 bytes, the file has 67; 1 tensor is cut off: x" + damaged);
  CHECK(opening(content + "abc") == "it has 73 bytes, 3 more than its header describes" + damaged);
}

TEST_CASE("what is no safetensors file is said so") {
  CHECK(opening(with_length("{}", 1ULL << 40)) ==
        "its header length is 1099511627776, above the format's 100000000: no safetensors file" + damaged);
  CHECK(opening(with_length("[1, 2]")) == "its header does not start with '{': no safetensors file" + damaged);
  CHECK(opening("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n") ==
        "it is a pointer of Git LFS, not the file itself\n    fix: run `git lfs pull` in its folder, or download the "
        "model with `hf download`");
  CHECK_THAT(opening(with_length("{\"x\": }")), Contains("its header is no valid JSON: ") && Contains("column 7"));
}

TEST_CASE("each wrong entry of a header is named") {
  const auto entry = [](const std::string& text) {
    const auto said = opening(with_length("{\"x\":" + text + "}") + "12345678");
    REQUIRE(said.ends_with(damaged));
    return said.substr(0, said.size() - damaged.size());
  };
  CHECK(entry("3") == "tensor 'x' is not described by an object");
  CHECK(entry(R"({"shape":[2],"data_offsets":[0,8]})") == "tensor 'x' has no 'dtype'");
  CHECK(entry(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})") ==
        "tensor 'x' has dtype \"F31\", none of BOOL, U8, I8, F8_E5M2, F8_E4M3, F8_E8M0, I16, U16, F16, BF16, I32, "
        "U32, F32, F64, I64, U64");
  CHECK(entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})") ==
        "tensor 'x' has no valid 'shape' (a list of numbers from 0)");
  CHECK(entry(R"({"dtype":"F32","data_offsets":[0,8]})") ==
        "tensor 'x' has no valid 'shape' (a list of numbers from 0)");
  CHECK(entry(R"({"dtype":"F32","shape":[2]})") == "tensor 'x' has no valid 'data_offsets' (a list of numbers from 0)");
  CHECK(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})") ==
        "tensor 'x' has no valid 'data_offsets' ([begin, end])");
  CHECK(entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})") ==
        "tensor 'x' of shape [3] and dtype F32 needs 12 bytes, but its offsets span 8");
  CHECK(entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})") ==
        "tensor 'x' has shape [4294967296, 4294967296], too large for any file");
  CHECK(opening(with_length(R"({"__metadata__":{"a":1}})")) ==
        "'__metadata__' maps 'a' to something else than a text" + damaged);
}

TEST_CASE("holes and overlaps are refused") {
  const auto two = [](const std::string& first, const std::string& second) {
    return opening(with_length(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
                               R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}") +
                   std::string(12, '\0'));
  };
  CHECK(two("[0,4]", "[8,12]") == "tensor 'b' begins at byte 8 of the data, but the one before it ends at 4" + damaged);
  CHECK(two("[0,4]", "[2,6]") == "tensor 'b' begins at byte 2 of the data, but the one before it ends at 4" + damaged);
  CHECK(two("[4,8]", "[8,12]") == "tensor 'a' begins at byte 4 of the data, but the one before it ends at 0" + damaged);
}

}  // namespace safetensors_file_test
