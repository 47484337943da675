#include "shard/fill.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/text.h>
#include <capstan/nn/codec.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "ops/parallel.h"
#include "shard/bucket_parameters.h"

namespace capstan::shard {
namespace {

constexpr std::int64_t part_elements = std::int64_t{1} << 22;

// Rows of the box; a row is never divided.
void add_parts(const FillTask& task, std::vector<FillTask>& parts) {
  const auto numel = task.box.numel();
  if (task.box.size.empty() || numel <= part_elements) {
    parts.push_back(task);
    return;
  }
  const auto rows = task.box.size[0];
  const auto row = numel / rows;
  const auto step = std::max<std::int64_t>(1, part_elements / row);
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    auto part = task;
    part.box.offset[0] += begin;
    part.box.size[0] = std::min(step, rows - begin);
    part.out = task.out.narrow(0, begin * row, part.box.size[0] * row);
    parts.push_back(std::move(part));
  }
}

class Filling {
 public:
  Filling(BucketParameters& bucket, const Shared& shared) : bucket_(bucket), plan_(bucket.plan()), shared_(shared) {
    if (plan_.parameters.gathers()) position_ = bucket.position();
    if (plan_.parameters.form == Form::values) return;
    const auto values = at::TensorOptions().dtype(shared.options.precision.compute).device(shared.device());
    uncoded_ = at::zeros({position_ ? plan_.shard_elements : plan_.full_elements}, values);
  }

  void read(layout::Source& source) {
    std::vector<FillTask> tasks;
    each_record([&](std::size_t i, std::size_t j, const layout::Param& record) {
      auto box = compute_box(record);
      if (position_) box = plan_.weights[i].sharding.box(j, *position_, std::move(box));
      auto out = target(i, j);
      const bool is_coded = plan_.parameters.form == Form::packed && find_coded(i, j, box, source);
      if (!is_coded && out.numel() > 0) tasks.push_back({&record, box, std::move(out)});
    });
    fill_all(source, tasks);
  }

  std::vector<std::string> scatter_from_first(layout::Source& source, comm::Group& everyone) {
    std::vector<std::string> differing;
    each_record([&](std::size_t i, std::size_t j, const layout::Param& record) {
      if (coded_.contains({i, j})) return;  // each rank has read its part
      const auto box = compute_box(record);
      const auto dtype = uncoded_.defined() ? uncoded_.scalar_type() : plan_.parameters.master;
      auto full = at::zeros({box.numel()}, at::TensorOptions().dtype(dtype).device(shared_.device()));
      if (everyone.rank() == 0 && box.numel() > 0) source.fill(record, box, full);
      everyone.broadcast(full, 0, cat("broadcast ", shared_.options.owner(), " ", record.name));
      const auto mine = target(i, j);
      if (position_) {
        auto shard = plan_.weights[i].sharding.shard(j, *position_);
        shard.in_full -= plan_.weights[i].sharding.whole[j].in_full;
        full = shard.of_full(full).reshape({-1});
      }
      const auto theirs = full.to(mine.device());
      if (at::equal(mine, theirs)) return;
      differing.push_back(record.name);
      mine.copy_(theirs);
    });
    return differing;
  }

  // Copies have the masters' new values too.
  void keep() {
    if (plan_.parameters.form == Form::packed) {
      pack();
    } else {
      if (plan_.parameters.form == Form::rows) encode_rows();
      if (plan_.on_host) bucket_.masters().publish_from_host();
      bucket_.publish();
    }
    bucket_.full().note_new_values();
  }

 private:
  template <class Visit>
  void each_record(const Visit& visit) const {
    for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
      const auto& records = plan_.weights[i].weight->records();
      for (std::size_t j = 0; j < records.size(); ++j) visit(i, j, records[j]);
    }
  }

  layout::Box compute_box(const layout::Param& record) const {
    return record.compute.box(record.shape, shared_.options.mesh, shared_.options.rank);
  }

  at::Tensor master(std::size_t i, std::size_t record) const {
    return plan_.weights[i].sharding.record_in(bucket_.masters().slice(i, true), record, position_);
  }

  // Where a record's values are read to: what this rank has of it.
  at::Tensor target(std::size_t i, std::size_t record) const {
    if (!uncoded_.defined()) return master(i, record);
    const auto& planned = plan_.weights[i];
    const auto weight = position_ ? planned.of_shard(uncoded_) : planned.of_full(uncoded_);
    return planned.sharding.record_in(weight, record, position_);
  }

  // Does the source have codes of this rank's box in place of numbers? Then they are taken as they are.
  bool find_coded(std::size_t i, std::size_t record, const layout::Box& box, const layout::Source& source) {
    const auto& weight = *plan_.weights[i].weight;
    const auto& param = weight.records()[record];
    // The ranks agree on what is read; those that have nothing of it do so too.
    Codes codes{nn::coded_in(source, param, box.empty() ? compute_box(param) : box), 0};
    if (codes.matrices.empty()) return false;
    std::int64_t row = 1;
    for (auto d = box.size.size(); d-- > weight.keeping_codec()->stacked();) {
      codes.first += box.offset[d] * row;
      row *= param.shape[d];
    }
    codes.first -= plan_.weights[i].packed[record].extents[static_cast<std::size_t>(bucket_.position())].first_column;
    coded_[{i, record}] = box.empty() ? Codes() : std::move(codes);
    return true;
  }

  // A unit's values are in memory together for the moment in which they are encoded, as while it computes.
  void pack() {
    const auto& kept = bucket_.masters().packed();
    const auto on_device = kept.device() == shared_.device() ? kept : at::empty_like(kept, shared_.device());
    const auto columns = [&](const at::Tensor& x) {
      if (auto* group = bucket_.tensor_group()) group->all_reduce(x, comm::ReduceOp::sum, bucket_.label());
    };
    const auto all = [&](const at::Tensor& x) {
      bucket_.group().all_reduce(x, comm::ReduceOp::sum, bucket_.label());
      columns(x);
    };
    const nn::Codec::Sum divided(all, columns), whole(columns, columns);
    each_record([&](std::size_t i, std::size_t j, const layout::Param&) {
      const auto& codec = *plan_.weights[i].weight->keeping_codec();
      const auto& packed = plan_.weights[i].packed[j];
      const auto& extent = packed.extents[static_cast<std::size_t>(bucket_.position())];
      const auto found = coded_.find({i, j});
      const bool is_coded = found != coded_.end();
      if (extent.numel() == 0 && (is_coded || !packed.divided)) return;
      const auto to = on_device.narrow(0, packed.begin, codec.bytes(extent));
      if (is_coded) {
        codec.read_matrices(extent, found->second.first, found->second.matrices, to);
      } else {
        const auto values = target(i, j).view({extent.matrices, extent.elements});
        codec.encode(extent, values, to, packed.divided ? divided : whole);
      }
    });
    if (!on_device.is_same(kept)) kept.copy_(on_device);
  }

  // Each rank knows the scales of the rows that it has read, and needs all that it will compute with.
  void encode_rows() {
    for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
      const auto& weight = *plan_.weights[i].weight;
      const auto& sharding = plan_.weights[i].sharding;
      const auto columns = sharding.shape.back();
      const auto float32 = at::TensorOptions().dtype(at::kFloat).device(shared_.device());
      const auto scales = at::zeros({sharding.numel / columns}, float32);
      for (std::size_t j = 0; j < weight.records().size(); ++j) {
        const auto own = encode_record(i, j);
        if (own.numel() == 0) continue;
        auto rows = sharding.shard(j, position_.value_or(0));
        rows.in_full /= columns;
        rows.block_apart /= columns;
        rows.numel = own.numel();
        if (!position_) rows.blocks = 1;
        const auto place = rows.of_full(scales);
        place.copy_(own.view_as(place));
      }
      if (position_ && plan_.ranks > 1) bucket_.group().all_reduce(scales, comm::ReduceOp::sum, bucket_.label());
      weight.keeping_codec()->keep_scales(scales);
    }
  }

  // The scales of a record's rows on this rank.
  at::Tensor encode_record(std::size_t i, std::size_t record) const {
    const auto columns = plan_.weights[i].sharding.shape.back();
    const auto values = target(i, record).view({-1, columns}), kept = master(i, record).view({-1, columns});
    const auto bytes = kept.device() == values.device() ? kept : at::empty_like(kept, values.device());
    if (values.numel() == 0) return at::empty({0}, values.options().dtype(at::kFloat));
    auto scales = plan_.weights[i].weight->keeping_codec()->encode_rows(values, bytes);
    if (!kept.is_same(bytes)) kept.copy_(bytes);
    return scales;
  }

  // A record that files hold in its codec's form, and where this rank's part begins.
  struct Codes {
    std::vector<nn::CodedMatrix> matrices;
    std::int64_t first = 0;
  };

  BucketParameters& bucket_;
  const BucketPlan& plan_;
  const Shared& shared_;
  std::optional<int> position_;  // nothing: this rank keeps full weights
  at::Tensor uncoded_;           // values of which a codec makes what is kept, placed as masters are
  std::map<std::pair<std::size_t, std::size_t>, Codes> coded_;  // by weight and record
};

}  // namespace

void fill_all(layout::Source& source, const std::vector<FillTask>& tasks) {
  if (!source.concurrent()) {
    for (const auto& task : tasks) source.fill(*task.record, task.box, task.out);
    return;
  }
  std::vector<FillTask> parts;
  for (const auto& task : tasks) add_parts(task, parts);
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::int64_t, std::int64_t) {
    const at::NoGradGuard no_grad;
    for (auto i = next++; i < parts.size(); i = next++) source.fill(*parts[i].record, parts[i].box, parts[i].out);
  };
  ops::parallel_ranges(static_cast<std::int64_t>(parts.size()), 1, work);
}

std::vector<std::string> fill(BucketParameters& bucket, const Shared& shared, layout::Source& source,
                              comm::Group* everyone) {
  Filling filling(bucket, shared);
  filling.read(source);
  std::vector<std::string> differing;
  if (everyone) differing = filling.scatter_from_first(source, *everyone);
  filling.keep();
  return differing;
}

}  // namespace capstan::shard
