// The operators' CUDA side: one graph of cuDNN's for a shape, compiled when it first comes.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cudnn/Handle.h>
#include <c10/cuda/CUDAGuard.h>
#include <cudnn_frontend.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "operators.h"

namespace bloom {
namespace {

namespace fe = cudnn_frontend;
using Node = std::shared_ptr<fe::graph::Tensor_attributes>;
using Sizes = std::vector<std::int64_t>;

enum Name : std::int64_t { q = 1, k, v, slopes, out, sums, of_out, of_q, of_k, of_v };

/// What a graph is made for.
struct Shape {
  std::int64_t batch, heads, length, columns;
  at::ScalarType type;
  bool backward;
  int device;
  auto operator<=>(const Shape&) const = default;
};

Shape shape_of(const at::Tensor& fused, std::int64_t heads, bool backward) {
  return {fused.size(0),       heads,    fused.size(1),         fused.size(2) / (3 * heads),
          fused.scalar_type(), backward, fused.device().index()};
}

Node index_along(fe::graph::Graph& graph, const Node& scores, int axis) {
  const auto attributes = fe::graph::Pointwise_attributes()
                              .set_mode(fe::PointwiseMode_t::GEN_INDEX)
                              .set_axis(axis)
                              .set_compute_data_type(fe::DataType_t::INT32);
  const auto index = graph.pointwise(scores, attributes);
  index->set_data_type(fe::DataType_t::INT32);
  return index;
}

Node combined(fe::graph::Graph& graph, const Node& a, const Node& b, fe::PointwiseMode_t how, fe::DataType_t type) {
  const auto both = graph.pointwise(a, b, fe::graph::Pointwise_attributes().set_mode(how).set_compute_data_type(type));
  both->set_data_type(type);
  return both;
}

/// Adds slope · (key - query) to the scores, and hides the keys after the query.
auto biased(const Node& slope) {
  return [slope](const std::shared_ptr<fe::graph::Graph>& graph, const Node& scores) -> Node {
    using Mode = fe::PointwiseMode_t;
    const auto distance = combined(*graph, index_along(*graph, scores, 3), index_along(*graph, scores, 2), Mode::SUB,
                                   fe::DataType_t::INT32);
    const auto bias = combined(*graph, distance, slope, Mode::MUL, fe::DataType_t::FLOAT);
    return fe::graph::attn::score_modifiers::causal_mask(
        graph, combined(*graph, scores, bias, Mode::ADD, fe::DataType_t::FLOAT));
  };
}

/// A graph and its inputs. Heads lie in the projection: q, k and v of a head follow each other.
class Drawing {
 public:
  explicit Drawing(const Shape& shape)
      : shape_(shape),
        in_projection_{shape.length * shape.heads * 3 * shape.columns, 3 * shape.columns,
                       shape.heads * 3 * shape.columns, 1},
        by_position_{shape.length * shape.heads * shape.columns, shape.columns, shape.heads * shape.columns, 1} {
    graph_->set_io_data_type(shape.type == at::kHalf ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<fe::graph::Graph> forward() {
    const auto [y, logarithms] =
        graph_->sdpa(heads_at(q), heads_at(k), heads_at(v),
                     fe::graph::SDPA_attributes().set_generate_stats(true).set_attn_scale(scale()).set_score_mod(
                         biased(slopes_input())));
    result(y, out, by_position_);
    logarithms->set_output(true).set_uid(sums).set_data_type(fe::DataType_t::FLOAT);
    return graph_;
  }

  std::shared_ptr<fe::graph::Graph> backward() {
    const auto [x, y, z] = graph_->sdpa_backward(
        heads_at(q), heads_at(k), heads_at(v), input(out, heads(), by_position_), input(of_out, heads(), by_position_),
        single(sums, {shape_.batch, shape_.heads, shape_.length, 1},
               {shape_.heads * shape_.length, shape_.length, 1, 1}),
        fe::graph::SDPA_backward_attributes().set_attn_scale(scale()).set_score_mod(biased(slopes_input())));
    result(x, of_q, in_projection_);
    result(y, of_k, in_projection_);
    result(z, of_v, in_projection_);
    return graph_;
  }

 private:
  Sizes heads() const { return {shape_.batch, shape_.heads, shape_.length, shape_.columns}; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.columns)); }
  Node input(Name name, const Sizes& sizes, const Sizes& strides) {
    return graph_->tensor(fe::graph::Tensor_attributes().set_uid(name).set_dim(sizes).set_stride(strides));
  }
  Node single(Name name, const Sizes& sizes, const Sizes& strides) {
    const auto node = input(name, sizes, strides);
    node->set_data_type(fe::DataType_t::FLOAT);
    return node;
  }
  Node heads_at(Name name) { return input(name, heads(), in_projection_); }
  Node slopes_input() { return single(slopes, {1, shape_.heads, 1, 1}, {shape_.heads, 1, 1, 1}); }
  void result(const Node& node, Name name, const Sizes& strides) const {
    node->set_output(true).set_uid(name).set_dim(heads()).set_stride(strides);
  }

  Shape shape_;
  Sizes in_projection_;
  Sizes by_position_;
  std::shared_ptr<fe::graph::Graph> graph_ = std::make_shared<fe::graph::Graph>();
};

/// Compiled graphs by shape; null: cuDNN has no kernel. Any thread may ask.
class Graphs {
 public:
  std::shared_ptr<fe::graph::Graph> find(const Shape& shape) {
    const std::scoped_lock lock(mutex_);
    const auto known = graphs_.find(shape);
    if (known != graphs_.end()) return known->second;
    auto graph = shape.backward ? Drawing(shape).backward() : Drawing(shape).forward();
    if (graph->build(at::native::getCudnnHandle(), {fe::HeurMode_t::A}).is_bad()) graph = nullptr;
    return graphs_.emplace(shape, std::move(graph)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Shape, std::shared_ptr<fe::graph::Graph>> graphs_;
};

Graphs& graphs() {
  static Graphs all;
  return all;
}

using Pointers = std::unordered_map<std::int64_t, void*>;

void* part(const at::Tensor& projection, std::int64_t heads, int which) {
  const auto columns = projection.size(2) / (3 * heads);
  return static_cast<char*>(projection.data_ptr()) + which * columns * projection.element_size();
}

// Threads may run one graph at once: LibTorch gives each a handle of its own, which is all that cuDNN asks for.
void run(const Shape& shape, Pointers pointers) {
  const auto graph = graphs().find(shape);
  TORCH_CHECK(graph, "cuDNN has no kernel for attention with linear biases of ", shape.heads, " heads of ",
              shape.columns, " columns");
  std::int64_t bytes = 0;
  TORCH_INTERNAL_ASSERT(graph->get_workspace_size(bytes).is_good());
  const auto workspace = at::empty({bytes}, at::TensorOptions(at::kByte).device(at::kCUDA, shape.device));
  auto status = graph->execute(at::native::getCudnnHandle(), pointers, workspace.data_ptr());
  TORCH_CHECK(status.is_good(), "cuDNN's attention with linear biases: ", status.get_message(),
              "\n    fix: set run.deterministic = true, which takes LibTorch's kernels");
}

std::tuple<at::Tensor, at::Tensor> forward_cuda(const at::Tensor& fused, const at::Tensor& slope) {
  const c10::cuda::CUDAGuard guard(fused.device());
  const auto shape = shape_of(fused, slope.size(0), /*backward=*/false);
  const auto y = at::empty({shape.batch, shape.length, shape.heads, shape.columns}, fused.options());
  const auto logarithms = at::empty({shape.batch, shape.heads, shape.length}, slope.options());
  run(shape, {{q, part(fused, shape.heads, 0)},
              {k, part(fused, shape.heads, 1)},
              {v, part(fused, shape.heads, 2)},
              {slopes, slope.data_ptr()},
              {out, y.data_ptr()},
              {sums, logarithms.data_ptr()}});
  return {y.transpose(1, 2), logarithms};
}

at::Tensor backward_cuda(const at::Tensor& gradient, const at::Tensor& fused, const at::Tensor& y,
                         const at::Tensor& logarithms, const at::Tensor& slope) {
  const c10::cuda::CUDAGuard guard(fused.device());
  const auto shape = shape_of(fused, slope.size(0), /*backward=*/true);
  const auto of_fused = at::empty_like(fused);
  const auto by_position = [](const at::Tensor& heads) { return heads.transpose(1, 2).contiguous(); };
  const auto of_y = by_position(gradient), kept = by_position(y);
  run(shape, {{q, part(fused, shape.heads, 0)},
              {k, part(fused, shape.heads, 1)},
              {v, part(fused, shape.heads, 2)},
              {slopes, slope.data_ptr()},
              {out, kept.data_ptr()},
              {of_out, of_y.data_ptr()},
              {sums, logarithms.data_ptr()},
              {of_q, part(of_fused, shape.heads, 0)},
              {of_k, part(of_fused, shape.heads, 1)},
              {of_v, part(of_fused, shape.heads, 2)}});
  return of_fused;
}

bool has_cuda(const at::Tensor& fused, std::int64_t heads, bool backward) {
  const c10::cuda::CUDAGuard guard(fused.device());
  constexpr int first_major = 9;
  if (at::cuda::getCurrentDeviceProperties()->major < first_major) return false;
  return graphs().find(shape_of(fused, heads, false)) && (!backward || graphs().find(shape_of(fused, heads, true)));
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("alibi_attention", &forward_cuda);
  m.impl("alibi_attention_back", &backward_cuda);
  m.impl("has_alibi_attention", &has_cuda);
}

}  // namespace bloom
