#include "session/state_store.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

namespace capstan::session {

strategy::StateOf StateStore::of(const std::string& prefix) {
  return [this, prefix](const std::string& name, at::IntArrayRef shape, c10::ScalarType dtype) {
    const auto key = prefix + "/" + name;
    auto& tensor = tensors_[key];
    if (!tensor.defined()) tensor = at::zeros(shape, at::TensorOptions().dtype(dtype).device(device_));
    if (tensor.sizes() != shape || tensor.scalar_type() != dtype) {
      throw Error(cat("state '", key, "' is ", c10::toString(tensor.scalar_type()), " ",
                      layout::shape_text(tensor.sizes().vec()), ", but ", c10::toString(dtype), " ",
                      layout::shape_text(shape.vec()), " is asked for"),
                  "ask for one shape and dtype under a name; a checkpoint of another layout cannot give it back");
    }
    return tensor;
  };
}

void StateStore::put(const std::string& name, const at::Tensor& value) { tensors_[name] = value.to(device_); }

}  // namespace capstan::session
