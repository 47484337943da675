// What codecs do in a plan: the one place that decides by their capabilities.
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>

#include "shard/plan.h"

namespace capstan::shard {
namespace {

using layout::Axis;

// What a codec makes of a record's box. Matrices that are not whole here are so by their rows, or by their columns if
// this rank computes with some of them.
nn::Codec::Extent extent_of(const layout::Param& record, const layout::Box& box, std::size_t stacked) {
  nn::Codec::Extent extent{1, 1};
  for (std::size_t d = 0; d < stacked; ++d) extent.matrices *= box.size[d];
  std::int64_t inner = 1;  // elements of the record, and here, in a row of the dimension
  for (auto d = box.size.size(); d-- > stacked;) {
    extent.elements *= box.size[d];
    if (box.size[d] != record.shape[d]) extent.is_part = true;
    if (d > stacked && box.size[d] != record.shape[d]) {
      extent.columns = box.size[d] * inner;
      extent.of_columns = record.shape[d] * inner;
      extent.first_column = box.offset[d] * inner;
    }
    inner *= record.shape[d];
  }
  return extent;
}

// Dimensions of its matrices of which a rank has a part.
std::size_t cut_dims(const layout::Param& record, const layout::Box& box, std::size_t stacked) {
  std::size_t cut = 0;
  for (auto d = stacked; d < box.size.size(); ++d) cut += box.size[d] != record.shape[d] ? 1 : 0;
  return cut;
}

// What a rank computes with must stand for what it would as part of the whole.
void refuse_packing(const layout::Param& record, const layout::Box& box, const nn::Codec& codec) {
  const auto extent = extent_of(record, box, codec.stacked());
  auto why = codec.refusal(extent);
  if (cut_dims(record, box, codec.stacked()) > 1 || (extent.columns > 0 && extent.elements % extent.columns != 0))
    why = "a rank computes with a part of its rows and of its columns";
  if (why.empty()) return;
  throw Error(cat(record.name, " ", layout::shape_text(record.shape), " cannot be kept by strategy '", codec.name(),
                  "': ", why),
              cat(codec.fix(), ", or let another number of ranks split it"));
}

[[noreturn]] void refuse_gather(const nn::Weight& weight, const std::string& why, const std::string& otherwise) {
  const auto& codec = *weight.gathering_codec();
  throw Error(cat(weight.name(), " cannot be gathered in 8 bits by strategy '", codec.name(), "': ", why),
              cat(codec.fix(), ", or ", otherwise));
}

}  // namespace

Form form_of(const nn::Weight& weight) {
  const auto* codec = weight.keeping_codec();
  if (!codec) return Form::values;
  return codec->capabilities().computes_with_rows ? Form::rows : Form::packed;
}

void pack(BucketPlan& bucket, PlannedWeight& planned, const EngineOptions& options) {
  const auto& codec = *planned.weight->keeping_codec();
  const auto& records = planned.weight->records();
  for (std::size_t r = 0; r < records.size(); ++r) {
    const auto box_on = [&](int rank) { return records[r].compute.box(records[r].shape, options.mesh, rank); };
    // Each rank refuses what any one does: pieces may differ, and `check` plans the first rank's.
    for (const int rank : options.mesh.ranks_along({Axis::ep, Axis::tp}, options.rank))
      refuse_packing(records[r], box_on(rank), codec);
    const auto box = box_on(options.rank);
    PackedShard packed;
    packed.divided = bucket.ranks > 1 && planned.sharding.dims[r] >= codec.stacked();
    packed.begin = bucket.parameters.packed_bytes;
    for (int position = 0; position < bucket.ranks; ++position) {
      auto extent = extent_of(records[r], planned.sharding.box(r, position, box), codec.stacked());
      extent.is_part = extent.is_part || packed.divided;
      packed.bytes = std::max(packed.bytes, codec.bytes(extent));
      packed.extents.push_back(extent);
    }
    bucket.parameters.packed_bytes += packed.bytes;
    planned.packed.push_back(packed);
  }
}

bool plan_bytes(BucketPlan& bucket, const EngineOptions& options) {
  if (!bucket.shards_param && !bucket.shards_optim) return false;
  bool any = false;
  for (auto& planned : bucket.weights) {
    if (!planned.weight->gathering_codec()) continue;
    if (bucket.on_host)
      refuse_gather(*planned.weight, "it is updated in host memory, and sent from there as numbers", "do not offload");
    if (options.policy.reshard_size > 1) {
      refuse_gather(*planned.weight, "with reshard_size backward gathers numbers from forward",
                    "leave reshard_size out");
    }
    any = planned.in_bytes = true;
  }
  return any;
}

}  // namespace capstan::shard
