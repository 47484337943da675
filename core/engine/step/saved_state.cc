#include "step/saved_state.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/text.h>
#include <capstan/strategy/own_state.h>

#include <algorithm>
#include <set>
#include <utility>

#include "job/resume.h"
#include "resume/door.h"
#include "step/optimizer_state.h"

namespace capstan::step {
namespace {

std::string own_ending(int rank) { return cat("/rank-", rank); }

constexpr const char* own_kind = "strategy/";
constexpr const char* shared_kind = "shared/";

checkpoint::TensorBox box_of(const std::string& kind, const shard::StoredBox& stored) {
  return {job::saved_name(kind, stored.record->name, stored.copy), stored.record->shape, stored.box, stored.value,
          /*until_update=*/true};
}

// Does a rank, this one or another, keep values of its own that no rank of the saved run kept?
bool lacks_copies(const Session& session, const checkpoint::Reader& reader) {
  const auto& mesh = session.job->topology.mesh;
  const auto boxes = session.engine->stored_boxes();
  return std::any_of(boxes.begin(), boxes.end(), [&](const shard::StoredBox& stored) {
    const auto& record = *stored.record;
    return record.trainable && !reader.has(job::saved_name("model", record.name, mesh.size(record.local_axes) - 1));
  });
}

// "count" from "strategy/mine/step/count/rank-0", for a few of the tensors.
std::string own_names(const std::vector<std::string>& tensors, const std::string& plugin) {
  constexpr std::size_t most = 6;
  std::set<std::string> names;
  const auto begin = std::string(own_kind).size() + plugin.size() + 1;
  for (const auto& tensor : tensors) {
    const auto parts = split(tensor.substr(begin), '/');  // a bucket's name or "step", the tensor's, the rank
    if (parts.size() >= 2) names.insert(cat("'", parts[parts.size() - 2], "'"));
  }
  std::vector<std::string> list(names.begin(), names.end());
  if (list.size() > most) {
    const auto more = list.size() - most;
    list.resize(most);
    list.push_back(cat(more, " more"));
  }
  return join(list);
}

// The tensors of this kind that a strategy of this run asks for; the others' are not kept on.
std::vector<std::string> asked_for(const Session& session, const checkpoint::Reader& reader, const std::string& kind,
                                   std::set<std::string>& left_out) {
  std::vector<std::string> names;
  for (auto& tensor : reader.tensors(kind)) {
    const auto plugin = tensor.substr(kind.size(), tensor.find('/', kind.size()) - kind.size());
    const bool is_here = std::any_of(session.steps.begin(), session.steps.end(),
                                     [&](const StepHooksOf& step) { return step.plugin == plugin; });
    if (is_here) {
      names.push_back(std::move(tensor));
    } else {
      left_out.insert(plugin);
    }
  }
  return names;
}

// Strategies whose own tensors cannot come back here, but are part of a whole: they say so, or a checkpoint also has
// tensors of records for them.
void refuse_half_states(const Session& session, const checkpoint::Reader& reader) {
  const auto& job = *session.job;
  Diagnostics faults;
  for (const auto& step : session.steps) {
    const auto own = reader.tensors(cat(own_kind, step.plugin, "/"));
    const auto name = cat("strategy.", step.plugin, ".state");
    if (own.empty() || job::is_accepted(*job.config.checkpoint, name)) continue;
    const bool is_half = !reader.tensors(cat(shared_kind, step.plugin, "/")).empty();
    const auto* word = dynamic_cast<const strategy::OwnState*>(step.hooks.get());
    const auto asked =
        word ? word->on_other_mesh() : (is_half ? strategy::OnOtherMesh::refuse : strategy::OnOtherMesh::start_anew);
    if (asked == strategy::OnOtherMesh::start_anew) continue;
    faults.add(
        reader.path().string(),
        cat("strategy '", step.plugin, "' has saved tensors of each rank of the mesh ", reader.meta().mesh, " (",
            own_names(own, step.plugin), "), which would start afresh on ", job.topology.mesh.arithmetic(),
            is_half ? ", while those of records come back: together they would be no state that was saved"
                    : ": it does not continue without them"),
        cat("resume on ", reader.meta().mesh, ", start a new run, or accept it: checkpoint.accept = [\"", name, "\"]"));
  }
  faults.throw_if_any();
}

// Strategies' own tensors are this rank's and of this mesh.
void restore_own(Session& session, checkpoint::Reader& reader, const std::vector<std::string>& all,
                 std::vector<std::string>& words) {
  if (all.empty()) return;
  const auto& topology = session.job->topology;
  const auto& meta = reader.meta();
  if (meta.mesh != topology.mesh.arithmetic()) {
    refuse_half_states(session, reader);
    words.push_back(cat("strategies' own state is of the mesh ", meta.mesh, " and starts afresh on ",
                        topology.mesh.arithmetic(), ": this run is near the one that was saved, but not equal to it"));
    return;
  }
  const auto ending = own_ending(topology.rank);
  const auto begin = std::string(own_kind).size();
  for (const auto& tensor : all) {
    if (!tensor.ends_with(ending)) continue;
    auto value =
        at::empty(reader.shape(tensor), at::TensorOptions().dtype(checkpoint::torch_dtype(reader.dtype(tensor))));
    reader.read(tensor, layout::Box::whole(reader.shape(tensor)), value);
    session.state->put_own(tensor.substr(begin, tensor.size() - begin - ending.size()), value);
  }
}

// Tensors of records, "shared/<plugin>/<name>/<record>": this rank's boxes of them, whatever the mesh was.
void restore_shared(Session& session, checkpoint::Reader& reader, const std::vector<std::string>& all) {
  if (all.empty()) return;
  const auto begin = std::string(shared_kind).size();
  std::set<std::string> names;
  for (const auto& tensor : all) {
    const auto slash = tensor.find('/', tensor.find('/', begin) + 1);
    names.insert(tensor.substr(begin, slash - begin));
  }
  for (const auto& name : names) session.state->put_name(name);
  for (const auto& stored : session.engine->stored_boxes()) {
    for (const auto& name : names) {
      const auto tensor = cat(shared_kind, name, "/", stored.record->name);
      if (!stored.record->trainable || !reader.has(tensor)) continue;
      auto value =
          at::empty({stored.box.numel()}, at::TensorOptions().dtype(checkpoint::torch_dtype(reader.dtype(tensor))));
      reader.read(tensor, stored.box, value);
      session.state->put_of_record(name, stored.record->name, value);
    }
  }
}

// Ranks that hold the same box have the same values, even where their masters differ: the first copy's writer writes.
void add_shared_boxes(const Session& session, std::vector<checkpoint::TensorBox>& boxes) {
  const auto state = session.state->of_records();
  if (state.empty()) return;
  for (const auto& stored : session.engine->stored_boxes()) {
    if (!stored.record->trainable || !stored.writes_to_checkpoint || stored.copy != 0) continue;
    for (const auto& [name, records] : state) {
      const auto found = records.find(stored.record->name);
      if (found == records.end()) continue;
      boxes.push_back({cat(shared_kind, name, "/", stored.record->name), stored.record->shape, stored.box,
                       found->second, /*until_update=*/true});
    }
  }
}

std::vector<checkpoint::TensorBox> parameter_boxes(const Session& session, bool every_copy) {
  const auto& job = *session.job;
  const bool with_frozen = job::settled_save(job.config, job.plugins, *job.model) != "trainable";
  std::vector<checkpoint::TensorBox> boxes;
  for (const auto& stored : session.engine->stored_boxes()) {
    const auto& record = *stored.record;
    // A buffer may have come with an adapter, and is small.
    const bool is_saved = with_frozen || record.trainable || record.usage == layout::Usage::buffer;
    const bool wanted = (every_copy || stored.copy == 0) && is_saved;
    if (wanted && stored.writes_to_checkpoint) boxes.push_back(box_of("model", stored));
  }
  return boxes;
}

}  // namespace

std::vector<checkpoint::TensorBox> saved_weights(const Session& session) { return parameter_boxes(session, false); }

std::vector<checkpoint::TensorBox> saved_boxes(const Session& session) {
  auto boxes = parameter_boxes(session, true);
  for (auto& state : saved_states(session)) boxes.push_back(std::move(state));
  add_shared_boxes(session, boxes);
  for (const auto& [name, tensor] : session.state->own()) {
    const auto shape = tensor.sizes().vec();
    boxes.push_back(
        {own_kind + name + own_ending(session.job->topology.rank), shape, layout::Box::whole(shape), tensor});
  }
  return boxes;
}

std::vector<std::string> restore_state(Session& session, checkpoint::Reader& reader) {
  const at::NoGradGuard no_grad;
  std::vector<std::string> words;
  for (const auto& change : resume::door().changes(*session.job, reader))
    words.push_back(cat(change.name, " is ", change.is, ", not ", change.was, ", as checkpoint.accept allows"));
  for (auto& word : restore_states(session, reader)) words.push_back(std::move(word));
  if (lacks_copies(session, reader)) {
    words.emplace_back(
        "ranks kept parameters of their own, and there are more ranks now: the new ones start from the first one's");
  }
  std::set<std::string> left_out;
  restore_own(session, reader, asked_for(session, reader, own_kind, left_out), words);
  restore_shared(session, reader, asked_for(session, reader, shared_kind, left_out));
  for (const auto& plugin : left_out)
    words.push_back(cat("the state of strategy '", plugin, "', which this run does not have, is left out"));
  return words;
}

}  // namespace capstan::step
