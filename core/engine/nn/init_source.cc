#include "nn/init_source.h"

#include <capstan/ops/random.h>

#include <cmath>

namespace capstan::nn {

void InitSource::fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) {
  switch (param.init.kind) {
    case layout::Init::Kind::normal:
      ops::fill_normal(out.view(box.size), param.init.mean, param.init.std, seed_, param.name, param.shape, box.offset);
      return;
    case layout::Init::Kind::uniform: {
      const auto bound = param.init.std * std::sqrt(3.0);
      ops::fill_uniform(out.view(box.size), -bound, bound, seed_, param.name, param.shape, box.offset);
      return;
    }
    case layout::Init::Kind::zeros:
      out.zero_();
      return;
    case layout::Init::Kind::ones:
      out.fill_(1);
      return;
    case layout::Init::Kind::constant:
      out.fill_(param.init.mean);
      return;
  }
}

}  // namespace capstan::nn
