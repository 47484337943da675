#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include <capstan/layout/mesh.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>

namespace capstan::layout {

std::ostream& operator<<(std::ostream& out, Axis axis) { return out << axis_name(axis); }

void MeshSpec::set(Axis axis, std::int64_t size, std::string who, std::string where) {
  CAPSTAN_ASSERT(axis != Axis::replicate);  // split_data() is for that
  requests_.push_back({axis, size, std::move(who), std::move(where)});
}

void MeshSpec::split_data(std::int64_t size, std::string who, std::string where) {
  splits_.push_back({Axis::dp, size, std::move(who), std::move(where)});
}

Mesh::Mesh(std::initializer_list<std::pair<Axis, int>> sizes) {
  for (const auto& [axis, size] : sizes) {
    CAPSTAN_ASSERT(size >= 1);
    sizes_[static_cast<std::size_t>(axis)] = size;
  }
}

int Mesh::world_size() const { return size(all_axes); }

int Mesh::size(const std::vector<Axis>& axes) const {
  int product = 1;
  for (const Axis axis : axes) product *= size(axis);
  return product;
}

int Mesh::stride(Axis axis) const {
  int product = 1;
  for (auto i = static_cast<std::size_t>(axis) + 1; i < sizes_.size(); ++i) product *= sizes_[i];
  return product;
}

int Mesh::coordinate(int rank, Axis axis) const {
  CAPSTAN_ASSERT(rank >= 0 && rank < world_size());
  return rank / stride(axis) % size(axis);
}

int Mesh::position(int rank, const std::vector<Axis>& axes) const {
  int out = 0;
  for (const Axis axis : axes) out = out * size(axis) + coordinate(rank, axis);
  return out;
}

std::vector<int> Mesh::ranks_along(const std::vector<Axis>& axes, int rank) const {
  int origin = rank;
  for (const Axis axis : axes) origin -= coordinate(rank, axis) * stride(axis);
  std::vector<int> ranks{origin};
  for (const Axis axis : axes) {
    std::vector<int> next;
    for (const int base : ranks) {
      for (int i = 0; i < size(axis); ++i) next.push_back(base + i * stride(axis));
    }
    ranks = std::move(next);
  }
  return ranks;
}

std::string Mesh::arithmetic() const {
  std::vector<std::string> parts;
  for (const Axis axis : all_axes) {
    if (axis == Axis::replicate || ((axis == Axis::pp || axis == Axis::cp) && size(axis) == 1)) continue;
    parts.push_back(cat(axis, " ", size(axis)));
    if (axis == Axis::dp && size(Axis::replicate) > 1) {
      const auto copies = size(Axis::replicate);
      parts.back() = cat("dp ", copies * size(Axis::dp), " (replicate ", copies, " x shard ", size(Axis::dp), ")");
    }
  }
  return cat("world ", world_size(), " = ", join(parts, " x "));
}

std::string Mesh::left_over() const {
  std::vector<std::string> factors;
  for (const Axis axis : model_axes) {
    if (size(axis) > 1) factors.push_back(cat(axis, " ", size(axis)));
  }
  if (factors.empty()) return {};
  const auto split = size(model_axes);
  const auto cp = size(Axis::cp), dp = world_size() / split / cp;
  auto text = cat(join(factors, " x "), factors.size() > 1 ? cat(" = ", split) : "",
                  " ranks hold the model once, and what is left over goes to data parallelism: dp = ", world_size(),
                  " / ", split, cp > 1 ? cat(" / cp ", cp) : "", " = ", dp);
  if (const auto ep = size(Axis::ep); ep > 1) {
    text += cat("\nranks that share experts have samples of their own: data-parallel size = dp ", dp, " x ep ", ep,
                " = ", dp * ep);
  }
  return text;
}

namespace {

using Requests = std::map<Axis, MeshSpec::Request>;

std::string said_by(const MeshSpec::Request& request) {
  return cat(request.who, request.where.empty() ? "" : " (" + request.where + ")");
}

// One request an axis; contradictions and impossible sizes become faults.
Requests settle(const MeshSpec& spec, Diagnostics& diagnostics) {
  Requests settled;
  for (const auto& request : spec.requests()) {
    if (request.size < 1) {
      diagnostics.add(request.where, cat(request.who, " asks for ", request.axis, " = ", request.size, ", below 1"),
                      "give a size of 1 or more");
      continue;
    }
    const auto [earlier, is_new] = settled.try_emplace(request.axis, request);
    if (!is_new && earlier->second.size != request.size) {
      diagnostics.add(request.where,
                      cat(request.who, " asks for ", request.axis, " = ", request.size, ", but ",
                          said_by(earlier->second), " asks for ", earlier->second.size),
                      "give both the same size");
    }
  }
  return settled;
}

// How one copy of the model is split.
struct ModelSplit {
  std::optional<std::int64_t> ranks = 1;  // none: more than can be counted
  std::vector<std::string> factors;       // "tp 2"
  std::vector<std::string> askers;        // "tp by strategy.tensor_parallel (a.toml:3)"

  // "ep 2 x tp 2 = 4", "tp 3".
  std::string arithmetic() const {
    return cat(join(factors, " x "), factors.size() > 1 && ranks ? cat(" = ", *ranks) : "");
  }
};

// All but those that data parallelism is made of, which is what is left over.
std::vector<Axis> asked_axes() {
  auto axes = all_axes;
  std::erase_if(axes, [](Axis axis) { return axis == Axis::replicate || axis == Axis::dp; });
  return axes;
}

ModelSplit split_of(const Requests& settled) {
  ModelSplit split;
  for (const Axis axis : asked_axes()) {
    const auto found = settled.find(axis);
    if (found == settled.end() || found->second.size == 1) continue;
    const auto size = found->second.size;
    std::int64_t product = 0;
    const bool too_many = !split.ranks || __builtin_mul_overflow(*split.ranks, size, &product);
    split.ranks = too_many ? std::nullopt : std::optional(product);
    split.factors.push_back(cat(axis, " ", size));
    split.askers.push_back(cat(axis, " by ", said_by(found->second)));
  }
  return split;
}

// A world that is no multiple of the split, with the multiples of it around the world: "start 4 or 8 ranks".
void refuse_world(std::int64_t world, const ModelSplit& split, Diagnostics& diagnostics) {
  std::string fix = "change these sizes";
  if (split.ranks) {
    const auto below = world / *split.ranks * *split.ranks;
    const auto counts = below == 0 ? std::to_string(*split.ranks) : cat(below, " or ", below + *split.ranks);
    fix = cat("start ", counts, " ranks, or ", fix);
  }
  diagnostics.add({}, cat("world ", world, " is no multiple of ", split.arithmetic(), " (", join(split.askers), ")"),
                  fix);
}

// How many copies the ranks of data parallelism hold: dp / size of a copy.
std::int64_t copies(const MeshSpec& spec, std::int64_t dp, std::int64_t inner, Diagnostics& diagnostics) {
  if (spec.splits().empty()) return 1;
  const auto& request = spec.splits().front();
  auto size = request.size;
  if (size == 0) size = std::max<std::int64_t>(1, std::min(dp, spec.ranks_per_node() / inner));
  if (size >= 1 && dp % size == 0) return dp / size;
  diagnostics.add(request.where,
                  cat(request.who, " keeps one copy of the parameters on ", counted(size, "rank"), ", but dp = ", dp,
                      " is no multiple of it"),
                  cat("give a size that divides ", dp));
  return 1;
}

}  // namespace

Mesh resolve(const MeshSpec& spec, Diagnostics& diagnostics) {
  const auto faults = diagnostics.size();
  const auto world = spec.world_size();
  CAPSTAN_ASSERT(world >= 1);
  const Requests settled = settle(spec, diagnostics);
  const auto asked = [&](Axis axis) { return settled.contains(axis) ? settled.at(axis).size : 1; };
  if (diagnostics.size() != faults) return {};

  const auto split = split_of(settled);
  if (!split.ranks || world % *split.ranks != 0) {
    refuse_world(world, split, diagnostics);
    return {};
  }
  const auto unit = *split.ranks;
  const auto dp = world / unit;
  if (settled.contains(Axis::dp) && asked(Axis::dp) != dp) {
    const auto& request = settled.at(Axis::dp);
    diagnostics.add(request.where,
                    cat(request.who, " asks for dp = ", request.size, ", but world ", world, " leaves dp = ", dp,
                        split.factors.empty() ? "" : " next to " + join(split.factors, " x ")),
                    cat("start ", counted(request.size * unit, "rank"), ", or leave dp out"));
    return {};
  }
  const auto replicate = copies(spec, dp, unit, diagnostics);
  return Mesh({{Axis::pp, static_cast<int>(asked(Axis::pp))},
               {Axis::replicate, static_cast<int>(replicate)},
               {Axis::dp, static_cast<int>(dp / replicate)},
               {Axis::cp, static_cast<int>(asked(Axis::cp))},
               {Axis::ep, static_cast<int>(asked(Axis::ep))},
               {Axis::tp, static_cast<int>(asked(Axis::tp))}});
}

}  // namespace capstan::layout
