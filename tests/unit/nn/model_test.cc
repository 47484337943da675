#include <capstan/nn/model.h>
#include <capstan_catch.h>

#include <memory>

#include "nn/block.h"

namespace model_test {

using namespace capstan;
using capstan::testing::Block;

TEST_CASE("kinds of layers that nn does not have are told, each with its path") {
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<Block>());
  CHECK(nn::layers_of_other_kinds(*units[0]).size() == 1);
  CHECK(nn::notes_on_other_kinds(units, "mine") ==
        std::vector<std::string>{"mine does not know the kind of layer blocks.0/gain and leaves it whole"});
  units.push_back(std::make_unique<Block>());
  CHECK(nn::notes_on_other_kinds(units, "mine").front() ==
        "mine does not know the kind of layer blocks.0/gain (and of 1 more of that name) and leaves it whole");
}

TEST_CASE("a record that no layer owns is refused next to one that ranks share, and only there") {
  Block block(true);
  CHECK_NOTHROW(nn::refuse_undeclared(block));
  auto& up = block.weights()[1]->records().front();
  up.compute = up.compute.with({0, {layout::Axis::ep}});  // whose ranks see other samples
  CHECK_NOTHROW(nn::refuse_undeclared(block));
  up.compute = up.compute.with({1, {layout::Axis::tp}});
  CHECK_THROWS_WITH(
      nn::refuse_undeclared(block),
      Contains("unit blocks.0 uses raw.weight together with up.weight, which ranks share, and no layer declares") &&
          Contains("let a layer own it"));
  Block declared;
  auto& other = declared.weights()[1]->records().front();
  other.compute = other.compute.with({0, {layout::Axis::tp}});
  CHECK_NOTHROW(nn::refuse_undeclared(declared));
}

TEST_CASE("parameters: every record once, in order, of one unit or of all") {
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<Block>());
  units.push_back(std::make_unique<Block>());
  CHECK(nn::parameters(*units[0]).size() == 6);
  const auto all = nn::parameters(units);
  REQUIRE(all.size() == 12);
  CHECK(all[1]->name == "up.weight");
  CHECK(nn::parameters(std::vector<nn::Unit*>{units[0].get(), units[0].get()}).size() == 6);
}

}  // namespace model_test
