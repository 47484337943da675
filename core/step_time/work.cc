#include "step_time/work.h"

namespace capstan::plan {
namespace {

template <class Counts>
void join(Counts& to, const Counts& from) {
  for (const auto& [what, times] : from) to[what] += times;
}

}  // namespace

void add(Computing& sum, const Computing& one) {
  join(sum.compute.products, one.compute.products);
  join(sum.compute.attention, one.compute.attention);
  join(sum.compute.attention_backward, one.compute.attention_backward);
  sum.compute.bytes += one.compute.bytes;
  sum.compute.kernels += one.compute.kernels;
  join(sum.waited, one.waited);
}

void add(MicroStepWork& sum, const MicroStepWork& one) {
  add(static_cast<Computing&>(sum), one);
  join(sum.gathers, one.gathers);
  join(sum.later_gathers, one.later_gathers);
  const auto place = sum.copies.size();
  for (const auto& [before, bytes, awaited] : one.copies) sum.copies.push_back({before, bytes, place + awaited});
}

}  // namespace capstan::plan
