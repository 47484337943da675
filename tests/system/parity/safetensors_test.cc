#include <capstan/base/files.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"
#include "parity/python.h"

namespace safetensors_test {

using namespace capstan;
using namespace capstan::checkpoint;

namespace {

// Every tensor of a file, as our reader sees it.
std::vector<NamedTensor> all_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<NamedTensor> out;
  for (const auto& [name, info] : file.tensors()) {
    out.push_back({name, at::empty(info.shape, at::TensorOptions(torch_dtype(info.dtype)))});
    file.read(name, layout::Box::whole(info.shape), out.back().tensor);
  }
  return out;
}

}  // namespace

// Equal bytes say all of it: the same values bit by bit, names, shapes, dtypes, order and padding.
TEST_CASE("a file of Python's safetensors, read and written again, is the same bytes") {
  const Scratch scratch;
  run_python("safetensors_io.py", {"write", scratch / "python"});
  const auto tensors = all_tensors(scratch / "python");
  CHECK(tensors.size() == 61);
  write_safetensors(scratch / "ours", tensors);
  CHECK(read_file(scratch / "ours") == read_file(scratch / "python"));
}

TEST_CASE("a file of ours, read and written again by Python's safetensors, is the same bytes") {
  const Scratch scratch;
  std::vector<NamedTensor> tensors;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kByte}) {
    for (const auto* name : {"wte.weight", "h.10.b", "h.2.b", "line\nbreak \x7f \"quoted\" \\", "größe"}) {
      const auto values = at::arange(24, at::kDouble).sub_(11.3).mul_(7.1).abs_().view({4, 6}).t();
      tensors.push_back({cat(name, " ", c10::toString(dtype)), values.to(dtype)});
    }
  }
  write_safetensors(scratch / "ours", tensors);
  run_python("safetensors_io.py", {"rewrite", scratch / "ours", scratch / "python"});
  CHECK(read_file(scratch / "python") == read_file(scratch / "ours"));
}

TEST_CASE("no tensors at all") {
  const Scratch scratch;
  write_safetensors(scratch / "ours", {});
  run_python("safetensors_io.py", {"rewrite", scratch / "ours", scratch / "python"});
  CHECK(read_file(scratch / "python") == read_file(scratch / "ours"));
}

}  // namespace safetensors_test
