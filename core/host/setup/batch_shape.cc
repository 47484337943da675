#include "setup/batch_shape.h"

#include <capstan/base/text.h>

namespace capstan::setup {
namespace {

// Keeps every product of three sizes within 64 bits; far above anything that trains.
constexpr std::int64_t largest = 1'000'000;

bool in_range(const char* name, const BatchOption& option, Diagnostics& diagnostics) {
  if (!option.value || (*option.value >= 1 && *option.value <= largest)) return true;
  diagnostics.add(option.where, cat(name, " is ", *option.value), cat("use a number from 1 to ", largest));
  return false;
}

// The divisors of `number` next to `wanted`, below and above: "1 or 3".
std::string nearest_divisors(std::int64_t number, std::int64_t wanted) {
  std::int64_t below = 0;
  std::int64_t above = 0;
  for (std::int64_t d = 1; d <= number && above == 0; ++d) {
    if (number % d != 0) continue;
    if (d < wanted) below = d;
    if (d > wanted) above = d;
  }
  if (below == 0) return cat(above);
  return above == 0 ? cat(below) : cat(below, " or ", above);
}

// global_batch / (given x data-parallel size), where `given` is one of the other two sizes.
std::int64_t third_size(const char* given_name, std::int64_t given, const BatchOption& global, std::int64_t data_size,
                        Diagnostics& diagnostics) {
  const std::int64_t unit = given * data_size;
  const std::int64_t whole = *global.value;
  if (whole % unit == 0) return whole / unit;
  std::string fix = cat("global_batch = ", whole > unit ? cat(whole / unit * unit, " or ") : "",
                        (whole / unit + 1) * unit, " works with ", given_name, " ", given);
  if (whole % data_size == 0) {
    fix += cat("; ", given_name, " = ", nearest_divisors(whole / data_size, given), " works with global_batch ", whole);
  } else {
    fix += cat("; no ", given_name, " works with global_batch ", whole, ", which is not a multiple of ", data_size);
  }
  diagnostics.add(global.where,
                  cat("global_batch ", whole, " is not a multiple of ", given_name, " ", given,
                      " x data-parallel size ", data_size, " = ", unit),
                  fix);
  return 1;
}

void check_all_three(const BatchShape& shape, const std::string& where, Diagnostics& diagnostics) {
  const auto product = shape.micro_batch * shape.accumulation * shape.data_parallel_size;
  if (product == shape.global_batch) return;
  diagnostics.add(
      where,
      cat("global_batch ", shape.global_batch, " is not micro_batch ", shape.micro_batch, " x accumulation ",
          shape.accumulation, " x data-parallel size ", shape.data_parallel_size, " = ", product),
      cat("set global_batch = ", product,
          ", or leave one of the three out: any two fix the third (on the command line "
          "train.accumulation= unsets what a file says)"));
}

}  // namespace

BatchShape resolve_batch(BatchOption micro_batch, BatchOption accumulation, BatchOption global_batch,
                         std::int64_t data_parallel_size, Diagnostics& diagnostics) {
  CAPSTAN_ASSERT(data_parallel_size >= 1 && data_parallel_size <= largest);
  const bool valid = in_range("micro_batch", micro_batch, diagnostics) &
                     in_range("accumulation", accumulation, diagnostics) &
                     in_range("global_batch", global_batch, diagnostics);
  if (!valid) return {};
  BatchShape shape;
  shape.data_parallel_size = data_parallel_size;
  const int given = micro_batch.value.has_value() + accumulation.value.has_value() + global_batch.value.has_value();
  if (given < 2 && !accumulation.value) accumulation.value = 1;
  if (!global_batch.value && !micro_batch.value) micro_batch.value = 1;

  shape.micro_batch = micro_batch.value.value_or(1);
  shape.accumulation = accumulation.value.value_or(1);
  if (!global_batch.value) {
    shape.global_batch = shape.micro_batch * shape.accumulation * data_parallel_size;
    return shape;
  }
  shape.global_batch = *global_batch.value;
  if (!accumulation.value) {
    shape.accumulation = third_size("micro_batch", shape.micro_batch, global_batch, data_parallel_size, diagnostics);
  } else if (!micro_batch.value) {
    shape.micro_batch = third_size("accumulation", shape.accumulation, global_batch, data_parallel_size, diagnostics);
  } else {
    check_all_three(shape, global_batch.where, diagnostics);
  }
  return shape;
}

}  // namespace capstan::setup
