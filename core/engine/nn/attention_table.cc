#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/attention_table.h>

#include <algorithm>

#include "nn/attention_rows.h"

namespace capstan::nn {
namespace {

const std::vector<AttentionRow>& core_rows() {
  static const std::vector<AttentionRow> rows{segments_row(), sdpa_row(),   blocks_row(),
                                              masked_row(),   decode_row(), plain_row()};
  return rows;
}

}  // namespace

Verdict AttentionTable::verdict(const AttentionRow& row, const AttentionCall& call) {
  if (auto why = row.takes(call)) return why;
  for (const auto& [feature, word] : attention_feature_words) {
    if (call.wants(feature) && std::find(row.has.begin(), row.has.end(), feature) == row.has.end()) return WhyNot{word};
  }
  if (call.needs_log_sum_exp && !row.has_sinks && row.log_sum_exp != LogSumExp::with_gradient) return WhyNot{"sinks"};
  return {};
}

const AttentionRow& AttentionTable::row(std::string_view name) {
  const auto& rows = core_rows();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const AttentionRow& row) { return row.name == name; });
  CAPSTAN_ASSERT(found != rows.end());
  return *found;
}

void AttentionTable::wrap(const std::string& owner, Wrapper wrapper) {
  if (wrapper_)
    throw Error(cat("'", wrapped_by_, "' and '", owner, "' both want to run attention's kernels"), "use one of them");
  wrapped_by_ = owner;
  wrapper_ = std::move(wrapper);
}

const AttentionRow* AttentionTable::row_for(const AttentionCall& call) const {
  for (const auto* rows : {&added_, &core_rows()}) {
    for (const auto& row : *rows) {
      if (!verdict(row, call)) return &row;
    }
  }
  return nullptr;
}

std::vector<std::pair<std::string, WhyNot>> AttentionTable::passed_over(const AttentionCall& call) const {
  std::vector<std::pair<std::string, WhyNot>> list;
  for (const auto* rows : {&added_, &core_rows()}) {
    for (const auto& row : *rows) {
      const auto why = verdict(row, call);
      if (!why) return list;
      list.emplace_back(row.name, *why);
    }
  }
  return list;
}

at::Tensor AttentionTable::serve(const AttentionCall& call) const {
  if (const auto* row = row_for(call)) {
    const auto result = row->run(call);
    return call.sinks.defined() && !row->has_sinks ? with_sinks(result, call.sinks) : result.out;
  }
  CAPSTAN_ASSERT(call.batch->documents);
  return serve_apart(call);
}

// Costs a copy each way, where a block-diagonal mask would cost the square of the row and the fused kernels.
at::Tensor AttentionTable::serve_apart(const AttentionCall& call) const {
  const auto& documents = *call.batch->documents;
  const auto apart = [&](const at::Tensor& heads) { return documents.apart(heads.transpose(1, 2)).transpose(1, 2); };
  const auto batch = call.batch->apart();
  auto own = call;
  own.q = apart(call.q);
  own.k = apart(call.k);
  own.v = apart(call.v);
  own.fused = at::Tensor();
  own.batch = &batch;
  return documents.together(serve(own).transpose(1, 2), call.q.size(0), call.q.size(2)).transpose(1, 2);
}

namespace {

// Slopes and sinks are then those of the call's heads, and a cache that it has is filled.
void complete(AttentionCall& call) {
  const auto& batch = *call.batch;
  CAPSTAN_ASSERT(call.slopes.defined() == call.spec->alibi && call.sinks.defined() == call.spec->sinks);
  for (auto* of_heads : {&call.slopes, &call.sinks}) {
    if (batch.heads && of_heads->defined()) *of_heads = of_heads->narrow(0, batch.heads->first, call.q.size(1));
    CAPSTAN_ASSERT(!of_heads->defined() || of_heads->size(0) == call.q.size(1));
  }
  call.needs_log_sum_exp = call.sinks.defined();
  if (!call.cache || call.cache->is_filled()) return;
  call.cache->put(call.layer, call.k, call.v, batch.positions);
  call.cache = nullptr;
}

}  // namespace

at::Tensor AttentionTable::attend(AttentionCall call) const {
  const auto& batch = *call.batch;
  CAPSTAN_ASSERT(!(call.cache && (batch.part || batch.documents)) && !(batch.part && call.dropout));
  complete(call);
  const auto run = [&] { return serve(call); };
  if (!batch.kept || !wrapper_) return run();
  const auto* row = row_for(call);
  return row == nullptr || row->is_wrapped ? wrapper_(run, *batch.kept) : run();
}

at::Tensor attend(const AttentionCall& call) {
  static const AttentionTable table{};
  return table.attend(call);
}

}  // namespace capstan::nn
