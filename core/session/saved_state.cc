#include "session/saved_state.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>
#include <utility>

#include "session/resume.h"

namespace capstan::session {
namespace {

std::string kind_of(const strategy::OptimizerRule& rule, std::size_t state) {
  return cat("optimizer/", rule.state_name(state));
}

std::string own_ending(int rank) { return cat("/rank-", rank); }

constexpr const char* own_kind = "strategy/";

checkpoint::TensorBox box_of(const std::string& kind, const shard::StoredBox& stored) {
  return {saved_name(kind, stored.record->name, stored.copy), stored.record->shape, stored.box, stored.value,
          /*until_update=*/true};
}

void read_state(const shard::StoredBox& stored, const std::string& kind, checkpoint::Reader& reader,
                std::set<std::string>& missing) {
  auto tensor = saved_name(kind, stored.record->name, stored.copy);
  if (!reader.has(tensor)) tensor = saved_name(kind, stored.record->name, 0);
  if (reader.has(tensor)) {
    reader.read(tensor, stored.box, stored.value);
  } else {
    missing.insert(kind);
  }
}

// The optimizer must keep what was saved, no more and no less.
void check_kinds(const strategy::OptimizerRule& rule, const std::set<std::string>& missing,
                 checkpoint::Reader& reader) {
  std::set<std::string> foreign;
  for (const auto& tensor : reader.tensors("optimizer/")) {
    bool is_known = false;
    for (std::size_t i = 0; i < rule.states(); ++i) is_known = is_known || tensor.starts_with(kind_of(rule, i) + "/");
    if (!is_known) foreign.insert(tensor.substr(0, tensor.find('/', std::string("optimizer/").size())));
  }
  Diagnostics faults;
  const auto where = reader.path().string();
  const char* fix = "continue with the optimizer that was saved";
  for (const auto& kind : missing) {
    faults.add(where, cat("it has no '", kind, "', which the optimizer of this run keeps"), fix);
  }
  for (const auto& kind : foreign) {
    faults.add(where, cat("it has '", kind, "', which the optimizer of this run does not keep"), fix);
  }
  faults.throw_if_any();
}

// Does a rank, this one or another, keep values of its own that no rank of the saved run kept?
bool lacks_copies(const Session& session, const Job& job, const checkpoint::Reader& reader) {
  const auto boxes = session.engine->stored_boxes();
  return std::any_of(boxes.begin(), boxes.end(), [&](const shard::StoredBox& stored) {
    const auto& record = *stored.record;
    return record.trainable &&
           !reader.has(saved_name("model", record.name, job.topology.mesh.size(record.local_axes) - 1));
  });
}

// Strategies' own tensors are this rank's and of this mesh.
void restore_own(Session& session, const Job& job, checkpoint::Reader& reader, std::vector<std::string>& words) {
  const auto all = reader.tensors(own_kind);
  if (all.empty()) return;
  const auto& meta = reader.meta();
  if (meta.mesh != job.topology.mesh.arithmetic()) {
    words.push_back(cat("strategies' own state is of the mesh ", meta.mesh, " and starts anew on ",
                        job.topology.mesh.arithmetic(),
                        ": this run is near the one that was saved, but not equal to it"));
    return;
  }
  const auto ending = own_ending(job.topology.rank);
  const auto begin = std::string(own_kind).size();
  for (const auto& tensor : all) {
    if (!tensor.ends_with(ending)) continue;
    auto value = at::empty(reader.shape(tensor), at::TensorOptions().dtype(reader.dtype(tensor)));
    reader.read(tensor, layout::Box::whole(reader.shape(tensor)), value);
    session.state->put(tensor.substr(begin, tensor.size() - begin - ending.size()), value);
  }
}

}  // namespace

std::vector<checkpoint::TensorBox> saved_boxes(const Session& session, const strategy::OptimizerRule& rule, int rank,
                                               Saves what) {
  std::vector<checkpoint::TensorBox> boxes;
  for (const auto& stored : session.engine->stored_boxes()) {
    const bool weights = what == Saves::weights || what == Saves::trained_weights;
    const bool all = what == Saves::weights || what == Saves::all;
    const bool wanted = (!weights || stored.copy == 0) && (all || stored.record->trainable);
    if (wanted && stored.writes_to_checkpoint) boxes.push_back(box_of("model", stored));
  }
  if (what == Saves::weights || what == Saves::trained_weights) return boxes;
  const auto states = session.engine->state_boxes(rule.states());
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (const auto& stored : states[i]) {
      if (stored.writes_to_checkpoint) boxes.push_back(box_of(kind_of(rule, i), stored));
    }
  }
  for (const auto& [name, tensor] : session.state->tensors()) {
    const auto shape = tensor.sizes().vec();
    boxes.push_back({own_kind + name + own_ending(rank), shape, layout::Box::whole(shape), tensor});
  }
  return boxes;
}

std::vector<std::string> restore_state(Session& session, const strategy::OptimizerRule& rule, const Job& job,
                                       checkpoint::Reader& reader) {
  const at::NoGradGuard no_grad;
  std::vector<std::string> words;
  std::set<std::string> missing;
  const auto states = session.engine->state_boxes(rule.states());
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (const auto& stored : states[i]) read_state(stored, kind_of(rule, i), reader, missing);
  }
  check_kinds(rule, missing, reader);
  if (lacks_copies(session, job, reader)) {
    words.emplace_back(
        "ranks kept parameters of their own, and there are more ranks now: the new ones start from the first one's");
  }
  restore_own(session, job, reader, words);
  return words;
}

}  // namespace capstan::session
