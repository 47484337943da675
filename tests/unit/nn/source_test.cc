// Where records are in published files.
#include <capstan/layout/file_tensor.h>
#include <capstan_catch.h>

#include <stdexcept>

namespace source_test {

using namespace capstan::layout;

TEST_CASE("a record that is fused with others and transposed is a part of a larger tensor") {
  FileTensor tensor;
  tensor.part = FusedPart{0, 4, 12};
  CHECK(tensor.fused_shape({4, 8}) == Shape{12, 8});
  tensor.transposed = true;
  CHECK(tensor.fused_shape({4, 8}) == Shape{12, 8});
  CHECK(tensor.expected_shape({4, 8}) == Shape{8, 12});
  tensor.part->offset = 9;
  CHECK_THROWS_AS(tensor.expected_shape({4, 8}), std::logic_error);
}

TEST_CASE("a file's own shape has the record's elements") {
  FileTensor tensor;
  tensor.file_shape = {6, 8};
  CHECK(tensor.expected_shape({2, 3, 8}) == Shape{6, 8});
  CHECK_THROWS_AS(tensor.expected_shape({2, 4, 8}), std::logic_error);
}

TEST_CASE("a file has a record's dimensions in an order of its own, and then in its own shape") {
  FileTensor tensor;
  tensor.order = {0, 3, 2, 1};
  CHECK(tensor.expected_shape({4, 2, 5, 3}) == Shape{4, 3, 5, 2});
  tensor.file_shape = {4, 3, 10};
  CHECK(tensor.expected_shape({4, 2, 5, 3}) == Shape{4, 3, 10});
}

TEST_CASE("stacked tensors are counted by the record's leading dimensions") {
  FileTensor tensor;
  CHECK(tensor.stacked_dims({3, 2, 5, 7}) == 0);
  tensor.stack = {"gate.0", "up.0", "gate.1", "up.1", "gate.2", "up.2"};
  CHECK(tensor.stacked_dims({3, 2, 5, 7}) == 2);
  CHECK(tensor.stacked_dims({6, 5, 7}) == 1);
  CHECK(tensor.expected_shape({3, 2, 5, 7}) == Shape{5, 7});
  tensor.stack.pop_back();
  CHECK_THROWS_AS(tensor.stacked_dims({3, 2, 5, 7}), std::logic_error);
}

TEST_CASE("names are published with the first prefix, once, but for those that have none") {
  FileMap map;
  CHECK(map.published("h.0.w") == "h.0.w");
  map.prefixes = {"transformer.", "model."};
  CHECK(map.published("h.0.w") == "transformer.h.0.w");
  CHECK(map.published("transformer.h.0.w") == "transformer.h.0.w");
  CHECK(map.published("lm_head.weight") == "lm_head.weight");
}

}  // namespace source_test
