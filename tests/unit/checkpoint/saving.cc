#include "checkpoint/saving.h"

#include <capstan/base/files.h>

#include <numeric>

namespace saving {

using namespace capstan;
using checkpoint::Reader;
using checkpoint::TensorBox;
using layout::Axis;
using layout::Box;
using layout::Cut;
using layout::Layout;

Record record(const std::string& name, const layout::Shape& shape, c10::ScalarType dtype, Layout layout, double first) {
  Record out;
  out.param.name = name;
  out.param.shape = shape;
  out.param.param.layout = std::move(layout);
  out.value = at::arange(layout::numel(shape), at::kDouble).view(shape).add_(first).to(dtype);
  return out;
}

std::vector<Record> records(double first) {
  const Layout by_dp{{Cut{0, {Axis::dp, Axis::ep}}}};
  const Layout by_tp{{Cut{1, {Axis::tp}}}};
  std::vector<Record> out;
  out.push_back(record("wte.weight", {7, 6}, at::kFloat, by_tp.with({0, {Axis::dp, Axis::ep}}), first));
  out.push_back(record("ln.weight", {3}, at::kDouble, by_dp, first));
  out.push_back(record("experts", {4, 2, 5, 3}, at::kBFloat16, {{Cut{0, {Axis::ep}}, Cut{2, {Axis::dp}}}}, first));
  out.push_back(record("steps", {5}, at::kLong, by_dp, 1));
  out.push_back(record("scale", {}, at::kFloat, {}, first));
  out.push_back(record("nothing", {0, 4}, at::kFloat, by_dp, first));
  return out;
}

std::vector<Record> records_cut_otherwise() {
  auto out = records();
  const Layout by_columns{{Cut{1, {Axis::dp}}}};
  out[0].param.param.layout = by_columns;
  out[1].param.param.layout = {};
  out[2].param.param.layout = {{Cut{3, {Axis::dp}}}};
  return out;
}

at::Tensor slice(at::Tensor whole, const Box& box) {
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    whole = whole.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
  }
  return whole;
}

std::vector<TensorBox> boxes_of(const std::vector<Record>& records, const layout::Mesh& mesh, int rank) {
  std::vector<TensorBox> out;
  for (const auto& [param, value] : records) {
    const auto& layout = param.param.layout;
    if (!layout.counts(mesh, rank)) continue;
    const auto box = layout.box(param.shape, mesh, rank);
    out.push_back({"model/" + param.name, param.shape, box, slice(value, box)});
  }
  return out;
}

void on_ranks(int ranks, const std::function<void(const std::shared_ptr<comm::Group>&)>& body) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  comm::run_in_process(
      ranks, [&](comm::Communicator& communicator) { body(communicator.group("checkpoints", all, at::kCPU)); });
}

void save_at(const std::filesystem::path& path, const std::vector<Record>& records, const layout::Mesh& mesh,
             const checkpoint::Meta& meta) {
  on_ranks(mesh.world_size(),
           [&](const auto& group) { checkpoint::save(path, *group, meta, boxes_of(records, mesh, group->rank())); });
}

void save_step(const checkpoint::WriterOptions& options, std::int64_t step, double first,
               const std::map<std::string, double>& metrics) {
  on_ranks(1, [&](const auto& group) {
    checkpoint::Writer writer(options, group);
    checkpoint::Meta meta;
    meta.step = step;
    meta.metrics = metrics;
    if (!options.keep.best.metric.empty()) meta.sections[checkpoint::BestRule::section] = options.keep.best.text();
    writer.start(meta, boxes_of(records(first), layout::Mesh(), 0));
    writer.wait();
  });
}

bool holds(const std::filesystem::path& path, double first) {
  Reader reader(path);
  const auto expected = records(first);
  bool equal = reader.tensors().size() == expected.size();
  for (const auto& [param, value] : expected) {
    auto out = at::empty_like(value);
    reader.read("model/" + param.name, Box::whole(param.shape), out);
    equal = equal && at::equal(out, value);
  }
  return equal;
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& folder) {
  std::vector<std::int64_t> out;
  for (const auto& path : capstan::checkpoint::committed(folder))
    out.push_back(std::stoll(path.filename().string().substr(5)));
  return out;
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    names.insert(std::filesystem::relative(entry.path(), folder).string());
  }
  return names;
}

void flip_bit(const std::filesystem::path& file, std::size_t from_end) {
  auto content = read_file(file);
  auto& byte = content.at(content.size() - from_end);
  byte = static_cast<char>(byte ^ 1);
  write_file(file, content);
}

}  // namespace saving
