#include "diagnosis/replica_check.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ops/checksum.h"

namespace capstan::diagnosis {
namespace {

// Says, for people, what a checksum covers, and where; ranks on other positions of its local axes hold other values.
std::string key_of(const std::string& what, const std::string& name, const std::string& box, int copy) {
  return cat("the ", what, " of ", name, " ", box, copy > 0 ? cat(" (copy ", copy, ")") : "");
}

// Checksums cover words of 16 bits at least: bytes are read in pairs, and an odd last one is a number by itself.
std::pair<at::Tensor, at::Tensor> as_words(const at::Tensor& value) {
  if (value.element_size() > 1) return {value, {}};
  if (value.storage_offset() % 2 != 0) return {value.to(at::kFloat), {}};
  const auto even = value.numel() / 2 * 2;
  const auto rest = value.numel() > even ? value.narrow(0, even, 1).to(at::kFloat) : at::Tensor();
  return {value.narrow(0, 0, even).view(at::kBFloat16), rest};
}

}  // namespace

ReplicaCheck::ReplicaCheck(const step::Session& session, std::int64_t every)
    : session_(session), mesh_(session.job->topology.mesh), every_(every) {}

bool ReplicaCheck::due(std::int64_t steps_done, std::int64_t first_step) const {
  return steps_done - first_step <= first_steps || steps_done % every_ == 0;
}

std::vector<ReplicaCheck::Held> ReplicaCheck::held() const {
  std::vector<Held> all;
  const auto add = [&](const std::string& key, const at::Tensor& value) {
    if (value.device().type() == session_.device.type() && value.numel() > 0) all.push_back({key, value});
  };
  auto& engine = *session_.engine;
  for (const auto& stored : engine.stored_boxes())
    add(key_of("parameter", stored.record->name, stored.box.text(), stored.copy), stored.value);
  for (const auto& kept : engine.state_boxes()) {
    const auto& [record, box, value, writes, copy] = kept.stored;
    for (std::size_t i = 0; i < kept.states.size(); ++i) {
      const auto key = key_of("optimizer's " + kept.slice->states[i].spec.name, record->name, box.text(), copy);
      const auto [words, rest] = as_words(kept.states[i]);
      add(key, words);
      if (rest.defined()) add(key + ", its last element", rest);
    }
  }
  for (const auto& copy : engine.compute_copies()) {
    std::vector<std::string> boxes;
    for (const auto& box : copy.boxes) boxes.push_back(box.text());
    add(key_of("compute copy", copy.weight->name(), join(boxes), copy.copy), copy.value);
  }
  return all;
}

void ReplicaCheck::find_shared(const std::vector<Held>& mine) {
  std::vector<std::string> keys;
  for (const auto& one : mine) keys.push_back(one.key);
  const auto texts = session_.communicator->exchange(join(keys, "\n"));
  std::map<std::string, int> holders;
  for (const auto& text : texts) {
    for (const auto& key : split(text, '\n')) ++holders[key];
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (holders[keys[i]] > 1) compared_.push_back(i);
  }
  std::map<std::string, std::vector<Place>> places;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::int64_t slot = 0;
    for (const auto& key : split(texts[rank], '\n')) {
      if (holders[key] > 1) places[key].push_back({static_cast<int>(rank), slot++});
    }
    slots_ = std::max(slots_, slot);
  }
  for (auto& [key, list] : places) shared_.push_back({key, std::move(list)});
  knows_shared_ = true;
}

// [ranks, slots] int64 on the CPU.
at::Tensor ReplicaCheck::gather(const std::vector<Held>& mine) const {
  std::vector<at::Tensor> values;
  for (const auto i : compared_) values.push_back(mine[i].value);
  const auto sums = at::zeros({static_cast<std::int64_t>(values.size())},
                              at::TensorOptions().dtype(at::kLong).device(session_.device));
  ops::checksums(sums, values);
  auto own = at::zeros({slots_}, at::kLong);
  own.narrow(0, 0, sums.numel()).copy_(sums);
  auto all = at::zeros({mesh_.world_size() * slots_}, at::kLong);
  session_.world_host->all_gather(all, own, "all-gather replicas' checksums");
  return all.view({mesh_.world_size(), slots_});
}

void ReplicaCheck::compare(const at::Tensor& all, std::int64_t steps_done) const {
  const auto* sums = all.const_data_ptr<std::int64_t>();
  const auto of = [&](const Place& place) { return sums[place.rank * slots_ + place.slot]; };
  const Shared* first = nullptr;
  const Place* other = nullptr;
  std::size_t drifted = 0;
  for (const auto& shared : shared_) {
    const auto differs = [&](const Place& place) { return of(place) != of(shared.holders.front()); };
    const auto found = std::find_if(shared.holders.begin(), shared.holders.end(), differs);
    if (found == shared.holders.end()) continue;
    if (drifted++ > 0) continue;
    first = &shared;
    other = &*found;
  }
  if (first) refuse(*first, *other, drifted - 1, steps_done);
}

void ReplicaCheck::refuse(const Shared& shared, const Place& other, std::size_t more, std::int64_t steps_done) const {
  const int rank = shared.holders.front().rank;
  std::vector<std::string> axes;
  for (const auto axis : layout::all_axes) {
    if (mesh_.coordinate(rank, axis) != mesh_.coordinate(other.rank, axis)) axes.push_back(cat(axis));
  }
  const auto when = equal_after_ < 0
                        ? cat("after step ", steps_done)
                        : cat("after step ", steps_done, " (they were equal after step ", equal_after_, ")");
  throw Error(
      cat("replicas have drifted apart: ", shared.key, " differs between ranks ", rank, " and ", other.rank,
          ", replicas along ", join(axes), ", ", when,
          more > 0 ? cat(plural(more, "; so does ", "; so do "), counted(more, "more tensor")) : ""),
      "find what changes it on a single rank: a weight whose gradient is a partial sum must be declared so "
      "(docs/plugins.md), and a hook must do the same on all replicas; run.verify_replicas = 0 compares nothing");
}

void ReplicaCheck::run(std::int64_t steps_done) {
  if (steps_done == equal_after_) return;
  const at::NoGradGuard no_grad;
  const auto mine = held();
  if (!knows_shared_) find_shared(mine);
  if (slots_ > 0) compare(gather(mine), steps_done);
  equal_after_ = steps_done;
}

std::unique_ptr<Replicas> compare_replicas(const step::Session& session, std::int64_t every) {
  return std::make_unique<ReplicaCheck>(session, every);
}

}  // namespace capstan::diagnosis
