#include "record/dtype.h"

#include <ATen/ATen.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"

namespace dtype_test {

using namespace capstan;
using namespace capstan::checkpoint;
using layout::Box;

TEST_CASE("what is written is read back bit by bit, in every dtype") {
  const Scratch scratch;
  std::vector<NamedTensor> tensors;
  for (const auto* name : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "I16", "U16", "F16", "BF16", "I32",
                           "U32", "F32", "F64", "I64", "U64"}) {
    const auto named = *dtype_named(name);
    const auto dtype = torch_dtype(named);
    const auto item = static_cast<std::int64_t>(c10::elementSize(dtype));
    auto bytes = at::arange(6 * item, at::kByte);
    if (dtype == at::kBool) bytes = bytes.remainder(2);
    tensors.push_back({name, bytes.view({2, 3 * item}).view(dtype)});
    CHECK(dtype_name(named) == name);
    CHECK(dtype_bytes(named) == item);
    CHECK(dtype_of(dtype) == named);
  }
  write_safetensors(scratch / "all.safetensors", tensors);
  const SafetensorsFile file(scratch / "all.safetensors");
  CHECK(file.tensors().size() == tensors.size());
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  for (const auto& [name, tensor] : tensors) {
    CHECK(file.info(name).shape == layout::Shape{2, 3});
    CHECK(torch_dtype(file.info(name).dtype) == tensor.scalar_type());
    auto out = at::empty({2, 3}, tensor.options());
    file.read(name, Box::whole({2, 3}), out);
    CHECK(at::equal(out.view(at::kByte), tensor.view(at::kByte)));
  }
}

}  // namespace dtype_test
