// The operator's CUDA side: tensors in, launches out.
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "update.h"

namespace adam8bit {
namespace {

using capstan::ops::cuda::float_type;

// Where all slices' tensors are.
struct All {
  at::TensorList masters, states, gradients, copies;
  at::ArrayRef<double> rates;  // each slice's learning rate, then each one's weight decay
};

// The list of as many slices from `begin` on as one launch takes.
void fill(List& list, std::size_t begin, const All& all) {
  list.count = 0;
  for (std::size_t i = begin; i < all.masters.size() && list.count < List::capacity; ++i, ++list.count) {
    const auto at = list.count;
    const auto* state = &all.states[i * states_each];
    list.master[at] = all.masters[i].data_ptr();
    list.grad[at] = all.gradients[i].const_data_ptr();
    list.codes[at] = state[0].data_ptr<std::uint8_t>();
    list.scales[at] = state[1].data_ptr<float>();
    list.square_codes[at] = state[2].data_ptr<std::uint8_t>();
    list.square_scales[at] = state[3].data_ptr<float>();
    list.copy[at] = all.copies.empty() ? nullptr : all.copies[i].data_ptr();
    list.numel[at] = all.masters[i].numel();
    list.lr[at] = all.rates[i];
    list.weight_decay[at] = all.rates[all.masters.size() + i];
    list.first_tile[at + 1] = list.first_tile[at] + capstan::kernels::parts_of(list.numel[at], List::tile);
  }
}

void update_cuda(at::TensorList masters, at::TensorList states, at::TensorList gradients, at::TensorList copies,
                 at::ArrayRef<double> options, at::TensorList progress) {
  const c10::cuda::CUDAGuard guard(masters.front().device());
  const auto gradient = float_type(gradients.front());
  const auto narrow = gradient == FloatType::half ? FloatType::half : FloatType::bfloat16;
  const Types types{float_type(masters.front()), gradient, copies.empty() ? narrow : float_type(copies.front())};
  const auto settings = options.slice(2 * masters.size());
  List list;
  list.by = {static_cast<float>(settings[0]), static_cast<float>(settings[1]), settings[2]};
  list.progress = {progress[0].const_data_ptr<double>(), progress[1].const_data_ptr<float>(),
                   progress[2].const_data_ptr<float>()};
  for (std::size_t begin = 0; begin < masters.size(); begin += List::capacity) {
    fill(list, begin, {masters, states, gradients, copies, options});
    capstan::ops::cuda::launch(update, list, types);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("adam8bit_", &update_cuda); }

}  // namespace adam8bit
