#pragma once
#include <capstan/nn/model.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace pipeline_parallel {

using Units = std::vector<std::unique_ptr<capstan::nn::Unit>>;

/// What a unit takes, compared with others.
struct UnitCost {
  double work = 0;      ///< multiplications of a token's forward: elements of the matrices that multiply it
  double elements = 0;  ///< of all its weights
};

/// A table that is looked up is memory and no work, and experts are as much work as a token sees of them.
std::vector<UnitCost> costs_of(const Units& units);

/// Where each stage begins, so that the stage with the most work has as little as possible, and among such cuts the one
/// with the most elements as few as possible. Each stage has at least one unit; needs as many units as stages.
std::vector<std::size_t> balanced(const std::vector<UnitCost>& units, std::size_t stages);

/// Does any product's weight have a gradient that a backward may leave to later?
bool trains_products(const Units& units);

}  // namespace pipeline_parallel
