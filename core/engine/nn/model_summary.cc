#include "nn/model_summary.h"
#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

namespace capstan::nn {

namespace {

template <class Size>
ModelSummary summarise_by(const std::vector<std::unique_ptr<Unit>>& units, const Size& size) {
  ModelSummary summary;
  std::set<const Weight*> counted;
  for (const auto& unit : units) {
    std::int64_t parameters = 0;
    for (const auto& weight : unit->weights()) {
      if (!counted.insert(weight.get()).second) continue;
      const std::int64_t elements = size(*weight);
      parameters += elements;
      if (weight->trainable()) summary.trainable += elements;
    }
    summary.parameters += parameters;
    const auto kind = unit->name().substr(0, unit->name().find('.'));
    auto& parts = summary.parts;
    if (parts.empty() || parts.back().name != kind || parts.back().parameters != parameters)
      parts.push_back({kind, 0, parameters});
    ++parts.back().units;
  }
  return summary;
}

}  // namespace

ModelSummary summarise(const std::vector<std::unique_ptr<Unit>>& units) {
  return summarise_by(units, [](const Weight& weight) { return weight.numel(); });
}

ModelSummary summarise(const std::vector<std::unique_ptr<Unit>>& units, const layout::Mesh& mesh, int rank) {
  return summarise_by(units, [&](const Weight& weight) {
    std::int64_t elements = 0;
    for (const auto& record : weight.records()) elements += record.compute.box(record.shape, mesh, rank).numel();
    return elements;
  });
}

namespace {

// The row's name, with what the rows before it lack where it is the plain one.
std::string row_text(const AttentionCore& attention, const PlannedAttention& planned) {
  Batch batch;
  batch.training = planned.trains;
  if (planned.is_packed) {
    batch.documents.emplace();
    batch.documents->longest = planned.length;
    batch.documents->bounds = at::empty({0}, planned.like.options().dtype(at::kInt));
  }
  const auto call = attention.planned(planned.like, batch, planned.length);
  const auto* row = attention.rows().row_for(call);
  if (!row) {  // packed samples are taken apart
    batch.documents.reset();
    row = attention.rows().row_for(call);
  }
  if (row->name != "plain") return row->name;
  std::vector<std::string> lacking;
  for (const auto& [name, why] : attention.rows().passed_over(call)) {
    const std::string what(why.what);
    if (why.is_lacking && std::find(lacking.begin(), lacking.end(), what) == lacking.end()) lacking.push_back(what);
  }
  return cat("plain (", join(lacking), ": no faster row has it)");
}

}  // namespace

std::string attention_text(const std::vector<std::unique_ptr<Unit>>& units, const PlannedAttention& planned) {
  std::map<std::string, int> layers;
  for (const auto& unit : units) {
    unit->each<AttentionCore>([&](const AttentionCore& attention) { ++layers[row_text(attention, planned)]; });
  }
  std::vector<std::string> list;
  bool is_slow = false;
  for (const auto& [row, count] : layers) {
    is_slow = is_slow || row.starts_with("plain");
    list.push_back(cat(row, " in ", counted(count, "layer")));
  }
  return is_slow ? cat("attention: ", join(list), "\n") : std::string();
}

std::string ModelSummary::text() const {
  std::vector<std::string> sum;
  for (const auto& part : parts) {
    sum.push_back(part.units == 1 ? cat(part.name, " ", thousands(part.parameters))
                                  : cat(part.units, " ", part.name, " x ", thousands(part.parameters)));
  }
  const auto share = trainable == parameters ? std::string() : cat(" (", thousands(trainable), " trainable)");
  return cat(thousands(parameters), " parameters", share, " = ", join(sum, " + "));
}

}  // namespace capstan::nn
