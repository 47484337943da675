#include <capstan/base/text.h>
#include <capstan/layout/mesh.h>

#include <map>
#include <ostream>

namespace capstan::layout {

const char* axis_name(Axis axis) {
  static constexpr std::array<const char*, 4> names{"pp", "dp", "ep", "tp"};
  return names[static_cast<std::size_t>(axis)];
}

std::ostream& operator<<(std::ostream& out, Axis axis) { return out << axis_name(axis); }

void MeshSpec::set(Axis axis, std::int64_t size, std::string who, std::string where) {
  requests_.push_back({axis, size, std::move(who), std::move(where)});
}

Mesh::Mesh(std::array<int, 4> sizes) : sizes_(sizes) {
  for (const int size : sizes_) CAPSTAN_ASSERT(size >= 1);
}

int Mesh::world_size() const { return sizes_[0] * sizes_[1] * sizes_[2] * sizes_[3]; }

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
  for (const Axis axis : all_axes) parts.push_back(cat(axis, " ", size(axis)));
  return cat("world ", world_size(), " = ", join(parts, " x "));
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

// "6 or 8": the multiples of `unit` around `world`.
std::string nearest_worlds(std::int64_t world, std::int64_t unit) {
  const auto below = world / unit * unit;
  return below == 0 ? std::to_string(unit) : cat(below, " or ", below + unit);
}

}  // namespace

Mesh resolve(const MeshSpec& spec, Diagnostics& diagnostics) {
  const auto faults = diagnostics.size();
  const auto world = spec.world_size();
  CAPSTAN_ASSERT(world >= 1);
  const Requests settled = settle(spec, diagnostics);
  const auto asked = [&](Axis axis) { return settled.contains(axis) ? settled.at(axis).size : 1; };
  if (asked(Axis::pp) != 1) {
    const auto& request = settled.at(Axis::pp);
    diagnostics.add(request.where,
                    cat(request.who, " asks for pp = ", request.size, ", but pipelines are not there yet"),
                    "set it to 1");
  }
  if (diagnostics.size() != faults) return {};

  std::int64_t unit = 1;
  std::vector<std::string> factors;
  std::vector<std::string> askers;
  for (const Axis axis : all_axes) {
    if (axis == Axis::dp || asked(axis) == 1) continue;
    // A product beyond every world is as indivisible as any other; stopping there keeps it from overflowing.
    if (unit <= world) unit *= asked(axis);
    factors.push_back(cat(axis, " ", asked(axis)));
    askers.push_back(cat(axis, " by ", said_by(settled.at(axis))));
  }
  if (unit > world || world % unit != 0) {
    diagnostics.add(
        {}, cat("world ", world, " is no multiple of ", join(factors, " x "), " = ", unit, " (", join(askers), ")"),
        cat("start ", nearest_worlds(world, unit), " ranks, or change these sizes"));
    return {};
  }
  const auto dp = world / unit;
  if (settled.contains(Axis::dp) && asked(Axis::dp) != dp) {
    const auto& request = settled.at(Axis::dp);
    diagnostics.add(request.where,
                    cat(request.who, " asks for dp = ", request.size, ", but world ", world, " leaves dp = ", dp,
                        factors.empty() ? "" : " beside " + join(factors, " x ")),
                    cat("start ", request.size * unit, " ranks, or leave dp out"));
    return {};
  }
  return Mesh({1, static_cast<int>(dp), static_cast<int>(asked(Axis::ep)), static_cast<int>(asked(Axis::tp))});
}

}  // namespace capstan::layout
