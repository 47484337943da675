#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/header.h"
#include "checkpoint/scratch.h"

namespace safetensors_writer_test {

using namespace capstan;
using namespace capstan::checkpoint;
using layout::Box;

TEST_CASE("the file is laid out by dtype, then name, its data 8-aligned") {
  const Scratch scratch;
  const auto one = at::ones({1}, at::kFloat);
  write_safetensors(scratch / "a", {{"b", one}, {"h", one.to(at::kHalf)}, {"a", one}, {"d", one.to(at::kDouble)}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},)"
      R"("h":{"dtype":"F16","shape":[1],"data_offsets":[16,18]}})";
  const auto padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const auto text = read_file(scratch / "a");
  CHECK(text.substr(0, 8 + padded.size()) == with_length(padded));
  CHECK(text.size() == 8 + padded.size() + 18);
  write_safetensors(scratch / "none", {}, {});
  CHECK(SafetensorsFile(scratch / "none").tensors().empty());
}

TEST_CASE("strided tensors are written in row-major order; nothing else stays in the folder") {
  const Scratch scratch;
  const auto tensor = at::arange(12, at::kFloat).view({3, 4}).t();
  write_safetensors(scratch / "a", {{"x", tensor}});
  auto out = at::empty({4, 3});
  SafetensorsFile(scratch / "a").read("x", Box::whole({4, 3}), out);
  CHECK(at::equal(out, tensor));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    names.push_back(entry.path().filename());
  CHECK(names == std::vector<std::string>{"a"});
}

TEST_CASE("writing says what went wrong") {
  const Scratch scratch;
  const auto path = scratch / "none/a";
  CHECK(fault_of([&] { write_safetensors(path, {}); }) ==
        path.string() + ": cannot create it: No such file or directory");
  CHECK(fault_of([&] {
          write_safetensors(scratch / "a", {{"x", at::ones({1}, at::kComplexFloat)}});
        }) == "safetensors has no dtype ComplexFloat");
  CHECK(std::filesystem::is_empty(scratch.path()));
}

}  // namespace safetensors_writer_test
