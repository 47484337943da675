#include "step/optimizer_state.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "job/resume.h"
#include "nn/blocks.h"

namespace capstan::step {
namespace {

constexpr const char* prefix = "optimizer/";

std::string kind_of(const optimizer::StateSpec& spec) { return prefix + spec.name; }

/// Where a state of a record's box is in a checkpoint.
struct Place {
  std::string tensor;
  layout::Shape shape;
  layout::Box box;
};

std::string name_in_box(const layout::Param& record, const layout::Box& box) {
  return cat(record.name, "@", box.text());
}

Place place_of(const optimizer::StateSpec& spec, const layout::Param& record, const layout::Box& box, int copy,
               bool divided) {
  if (spec.block == 1) return {job::saved_name(kind_of(spec), record.name, copy), record.shape, box};
  if (!divided) {
    return {job::saved_name(kind_of(spec), record.name, copy),
            {layout::blocks_in(record.numel(), spec.block)},
            layout::block_box(record, box, spec.block)};
  }
  const layout::Shape shape{layout::blocks_in(box.numel(), spec.block)};
  return {job::saved_name(kind_of(spec), name_in_box(record, box), copy), shape, layout::Box::whole(shape)};
}

// The numbers of "[0:384, 0:768]".
layout::Box box_from(const std::string& text) {
  layout::Box box;
  for (auto part : split(text.substr(1, text.size() - 2), ',')) {
    part = trim(part);
    const auto colon = part.find(':');
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::from_chars(part.data(), part.data() + colon, begin);
    std::from_chars(part.data() + colon + 1, part.data() + part.size(), end);
    box.offset.push_back(begin);
    box.size.push_back(end - begin);
  }
  return box;
}

// Stages that share a record keep equal joint states of it, and the first one saves them.
bool is_first_to_hold(const layout::Param& record, const job::Topology& topology) {
  const auto& only = record.compute.only;
  return !only || topology.mesh.position(topology.rank, {only->axis}) == only->positions.front();
}

class Restore {
 public:
  Restore(Session& session, checkpoint::Reader& reader) : session_(session), reader_(reader) {}

  std::vector<std::string> run() {
    for (auto& kept : session_.engine->state_boxes()) restore(kept);
    for (auto& kept : session_.engine->joint_states()) restore(kept);
    check_kinds();
    std::vector<std::string> words;
    if (packed_again_ > 0) {
      words.push_back(
          cat("the optimizer's states of ", packed_again_,
              " parameters are in blocks that ranks' boxes divide in another way than in the run that was "
              "saved: they were unpacked and packed again, so this run is near that one, but not equal to it"));
    }
    return words;
  }

 private:
  void restore(shard::StateOfRecord& kept) {
    const auto& states = kept.slice->states;
    const auto copy = copy_of(kept);
    std::vector<Place> places;
    for (const auto& state : states) {
      const bool divided =
          state.spec.block > 1 &&
          layout::divides_blocks(*kept.stored.record, kept.layout, session_.job->topology.mesh, state.spec.block);
      places.push_back(place_of(state.spec, *kept.stored.record, kept.stored.box, copy, divided));
    }
    const auto is_there = [&](const Place& one) { return reader_.has(one.tensor); };
    if (std::all_of(places.begin(), places.end(), is_there)) {
      for (std::size_t i = 0; i < places.size(); ++i) reader_.read(places[i].tensor, places[i].box, kept.states[i]);
      return;
    }
    if (const auto sources = sources_of(kept); !sources.empty()) return pack_again(kept, sources);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (is_there(places[i])) {
        reader_.read(places[i].tensor, places[i].box, kept.states[i]);
      } else {
        missing_.insert(kind_of(states[i].spec));
      }
    }
  }

  void restore(strategy::KeptJointState& kept) {
    const auto kind = prefix + kept.name;
    auto tensor = job::saved_name(kind, kept.part.record->name, kept.copy);
    if (!reader_.has(tensor)) tensor = job::saved_name(kind, kept.part.record->name, 0);
    if (reader_.has(tensor)) {
      reader_.read(tensor, kept.part.box, kept.value);
    } else {
      missing_.insert(kind);
    }
  }

  // A rank whose copy was not saved takes the first one's.
  int copy_of(const shard::StateOfRecord& kept) const {
    const auto& stored = kept.stored;
    const auto& states = kept.slice->states;
    const bool is_there = std::any_of(states.begin(), states.end(), [&](const shard::PlannedState& state) {
      return reader_.has(job::saved_name(kind_of(state.spec), stored.record->name, stored.copy));
    });
    return is_there ? stored.copy : 0;
  }

  // The boxes in which the saved run counted the record's blocks, none where it has no such state.
  std::vector<layout::Box> sources_of(const shard::StateOfRecord& kept) const {
    const auto& record = *kept.stored.record;
    const auto copy = copy_of(kept);
    for (const auto& state : kept.slice->states) {
      if (state.spec.block == 1) continue;
      if (reader_.has(job::saved_name(kind_of(state.spec), record.name, copy)))
        return {layout::Box::whole(record.shape)};
      std::vector<layout::Box> boxes;
      const auto begin = job::saved_name(kind_of(state.spec), record.name + "@", copy);
      for (const auto& tensor : reader_.tensors(begin)) boxes.push_back(box_from(tensor.substr(begin.size())));
      return boxes;
    }
    return {};
  }

  void pack_again(shard::StateOfRecord& kept, const std::vector<layout::Box>& sources) {
    const auto& record = *kept.stored.record;
    const auto& rule = *kept.slice->group->rule;
    const auto& mine = kept.stored.box;
    std::vector<at::Tensor> values;
    for (const auto& source : sources) {
      const auto shared = layout::intersect(source, mine);
      if (shared.empty()) continue;
      const auto unpacked =
          rule.unpacked(record, read(kept, source, sources.size() > 1 || source != layout::Box::whole(record.shape)));
      if (values.empty()) {
        for (std::size_t i = 0; i < unpacked.size(); ++i) values.push_back(at::zeros(mine.size, at::kFloat));
      }
      for (std::size_t i = 0; i < unpacked.size(); ++i) {
        layout::view_of(values[i], layout::relative_to(mine, shared))
            .copy_(layout::view_of(unpacked[i].view(source.size), layout::relative_to(source, shared)));
      }
    }
    std::vector<at::Tensor> packed;
    for (auto& value : values) value = value.flatten();
    for (const auto& state : kept.states) packed.push_back(at::empty_like(state, at::TensorOptions().device(at::kCPU)));
    rule.pack(record, values, packed);
    for (std::size_t i = 0; i < packed.size(); ++i) kept.states[i].copy_(packed[i]);
    ++packed_again_;
  }

  // The states of a box of the saved run.
  std::vector<at::Tensor> read(const shard::StateOfRecord& kept, const layout::Box& source, bool divided) {
    std::vector<at::Tensor> states;
    for (std::size_t i = 0; i < kept.states.size(); ++i) {
      const auto at = place_of(kept.slice->states[i].spec, *kept.stored.record, source, copy_of(kept), divided);
      states.push_back(at::empty({at.box.numel()}, kept.states[i].options().device(at::kCPU)));
      reader_.read(at.tensor, at.box, states.back());
    }
    return states;
  }

  // What rules keep of the model's records, other ranks' too: joint updates are asked as if one rank had them all.
  std::set<std::string> known_kinds() const {
    std::set<std::string> known;
    const auto& all = *session_.job->model->optimizer;
    const auto precision = job::precision_of(session_.job->config.train->precision, session_.device);
    for (auto* rule : all.rules()) {
      optimizer::Sharing sharing{{}, 0, precision.master, precision.device.type()};
      for (const auto* record : job::records_of(session_.units)) {
        if (!record->trainable || all.of(*record).rule.get() != rule) continue;
        for (const auto& spec : rule->states(*record)) known.insert(kind_of(spec));
        sharing.records.push_back({record, {layout::Box::whole(record->shape)}, sharing.records.size()});
      }
      const auto joint = rule->grain() == optimizer::Grain::record ? rule->joint(sharing) : nullptr;
      for (const auto& state : joint ? joint->states() : std::vector<optimizer::JointState>{})
        known.insert(prefix + state.name);
    }
    return known;
  }

  // The optimizer must keep what was saved, no more and no less.
  void check_kinds() const {
    const auto known = known_kinds();
    std::set<std::string> foreign;
    for (const auto& tensor : reader_.tensors(prefix)) {
      auto kind = tensor.substr(0, tensor.find('/', std::string(prefix).size()));
      if (!known.contains(kind)) foreign.insert(std::move(kind));
    }
    Diagnostics faults;
    const auto where = reader_.path().string();
    const char* fix = "continue with the optimizer that was saved";
    for (const auto& kind : missing_)
      faults.add(where, cat("it has no '", kind, "', which the optimizer of this run keeps"), fix);
    for (const auto& kind : foreign)
      faults.add(where, cat("it has '", kind, "', which the optimizer of this run does not keep"), fix);
    faults.throw_if_any();
  }

  Session& session_;
  checkpoint::Reader& reader_;
  std::set<std::string> missing_;
  std::int64_t packed_again_ = 0;
};

}  // namespace

std::vector<checkpoint::TensorBox> saved_states(const Session& session) {
  std::vector<checkpoint::TensorBox> boxes;
  const auto& mesh = session.job->topology.mesh;
  for (const auto& kept : session.engine->state_boxes()) {
    if (!kept.stored.writes_to_checkpoint) continue;
    for (std::size_t i = 0; i < kept.states.size(); ++i) {
      const auto& spec = kept.slice->states[i].spec;
      const auto& record = *kept.stored.record;
      const bool divided = spec.block > 1 && layout::divides_blocks(record, kept.layout, mesh, spec.block);
      auto at = place_of(spec, record, kept.stored.box, kept.stored.copy, divided);
      boxes.push_back({std::move(at.tensor), std::move(at.shape), std::move(at.box), kept.states[i],
                       /*until_update=*/true});
    }
  }
  for (const auto& kept : session.engine->joint_states()) {
    const auto& part = kept.part;
    if (!part.is_saved || !is_first_to_hold(*part.record, session.job->topology)) continue;
    boxes.push_back({job::saved_name(prefix + kept.name, part.record->name, kept.copy), part.shape, part.box,
                     kept.value,
                     /*until_update=*/true});
  }
  return boxes;
}

std::vector<std::string> restore_states(Session& session, checkpoint::Reader& reader) {
  return Restore(session, reader).run();
}

}  // namespace capstan::step
