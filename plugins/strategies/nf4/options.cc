#include "options.h"

namespace nf4 {

void Nf4Options::describe(capstan::config::OptionTable<Nf4Options>& t) {
  t.add("targets", &Nf4Options::targets)
      .doc(
          "layers whose frozen weights are kept in 4 bits, by their role (linear_qkv, linear_proj, linear_fc1, "
          "linear_fc2, experts), or \"all-linear\": all of each block, but not routers");
}

}  // namespace nf4
