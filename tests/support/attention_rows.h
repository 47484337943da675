#pragma once
// Every row of attention's table that takes a case gives what the definition says, and the same gradients by name.
#include <capstan_catch.h>

#include "support/attention_cases.h"

namespace capstan::testing {

using Named = std::map<std::string, at::Tensor>;

/// Which of the case's columns a call computes.
inline at::Tensor columns_of(const AttentionCase& c, const nn::Batch& batch) {
  if (c.kind() == after_a_cache) return at::tensor({c.columns - 1}, at::kLong);
  return batch.part ? batch.part->columns.cpu() : at::arange(c.columns, at::kLong);
}

/// "out", and "gradient of q" …; padding counts for nothing.
inline Named outcome(const AttentionCase& c, const Named& inputs, const at::Tensor& columns,
                     const std::function<at::Tensor(const Named&)>& attend) {
  auto leaves = inputs;
  for (auto& [name, leaf] : leaves) leaf = leaf.clone().set_requires_grad(true);
  auto real = at::zeros({c.rows, 1, c.columns, 1}, at::kDouble);
  for (const auto& at : c.places()) real.select(0, at.row).narrow(1, at.begin, at.length).fill_(1);
  const auto towards = (at::arange(c.columns * c.spec.heads.values(), at::kDouble) * 0.7).sin();
  const auto weights = real * towards.view({c.columns, -1});
  const auto out = attend(leaves);
  const auto kept = real.index_select(2, columns).to(out.device());
  Named all{{"out", (out.detach() * kept).cpu()}};
  if (!out.requires_grad()) return all;
  (out * weights.index_select(2, columns).to(out.options())).sum().backward();
  for (const auto& [name, leaf] : leaves) {
    const auto& gradient = leaf.grad();
    all["gradient of " + name] = gradient.defined() ? gradient.cpu() : at::zeros(leaf.sizes(), at::kDouble);
  }
  return all;
}

/// What a case is compared with: in float64 on the CPU.
inline Named expected(const AttentionCase& c, const at::Tensor& columns, const nn::Dropout& dropout) {
  const auto all = [&](const Named& in) { return defined_attention(c, in, dropout).index_select(2, columns); };
  if (c.kind() != after_a_cache) return outcome(c, c.inputs(), columns, all);
  const at::NoGradGuard no_grad;
  return outcome(c, c.inputs(), columns, all);
}

/// Runs `attend` with the case's call.
inline Named got(const AttentionCase& c, const nn::Batch& batch, const nn::Dropout& dropout,
                 const std::function<at::Tensor(const nn::AttentionCall&)>& attend) {
  Named leaves = c.inputs();
  const auto device = batch.positions.device();
  for (auto& [name, leaf] : leaves) leaf = leaf.to(c.type()).to(device);
  const auto columns = columns_of(c, batch).to(device);
  const auto slopes = c.slopes().to(c.type() == at::kDouble ? at::kDouble : at::kFloat).to(device);
  return outcome(c, leaves, columns.cpu(), [&](const Named& in) {
    nn::AttentionCall call{&c.spec, in.at("q").index_select(2, columns), in.at("k"), in.at("v")};
    if (c.spec.alibi) call.slopes = slopes;
    if (c.spec.sinks) call.sinks = in.at("sinks");
    if (c.drops()) call.dropout = &dropout;
    auto own = batch;
    call.batch = &own;
    if (c.kind() != after_a_cache) return attend(call);
    nn::KVCache cache(c.columns + 3);
    const auto prompt = c.columns - 1;
    cache.put(0, in.at("k").detach().narrow(2, 0, prompt), in.at("v").detach().narrow(2, 0, prompt),
              batch.positions.narrow(1, 0, prompt));
    cache.set_filled();
    call.k = call.k.narrow(2, prompt, 1);
    call.v = call.v.narrow(2, prompt, 1);
    own.positions = batch.positions.narrow(1, prompt, 1).contiguous();
    call.cache = &cache;
    const at::NoGradGuard no_grad;
    return attend(call);
  });
}

/// It is a part of the largest number expected. float64 and float32 add dozens of products of numbers up to 1. bfloat16
/// rounds scores, the cap of them, probabilities, and what backward makes of each, to 8 bits one after the other.
inline double tolerance_of(at::ScalarType type) {
  if (type == at::kDouble) return 1e-12;
  return type == at::kFloat ? 1e-5 : 12.0 / 256;
}

inline void check_same(const AttentionCase& c, const Named& result, const Named& wanted) {
  for (const auto& [name, value] : wanted) {
    INFO(name);
    REQUIRE(result.count(name) == 1);
    const auto largest = std::max(value.abs().max().item<double>(), 1e-3);
    CHECK((result.at(name).to(at::kDouble) - value).abs().max().item<double>() < tolerance_of(c.type()) * largest);
  }
}

/// What each row by name took, of all cases, on this device.
inline std::map<std::string, int> check_attention_rows(at::Device device) {
  static nn::Layer root("root");
  const nn::Dropout dropout(root, "attention", 0.3);
  const auto& segments = nn::AttentionTable::row("segments");
  std::map<std::string, int> taken;
  for (const auto& choice : attention_choices()) {
    const AttentionCase c(choice, device);
    INFO(c.name());
    const auto batch = c.batch();
    const auto columns = columns_of(c, batch);
    const auto attended = got(c, batch, dropout, [&](const auto& call) {
      if (c.spec.sinks) taken["sinks of segments"] += !nn::AttentionTable::verdict(segments, call);
      return nn::attend(call);
    });
    check_same(c, attended, expected(c, columns, dropout));
    auto without = c;
    without.spec.sinks = false;  // most rows know nothing of them
    const auto wanted = expected(without, columns, dropout);
    for (const char* name : {"segments", "SDPA", "blocks of a window", "masked SDPA", "decode", "plain"}) {
      INFO(name);
      const auto& row = nn::AttentionTable::row(name);
      bool takes = false;
      const auto result = got(without, batch, dropout, [&](const nn::AttentionCall& call) {
        takes = !nn::AttentionTable::verdict(row, call);
        return takes ? row.run(call).out : call.q.narrow(-1, 0, c.spec.heads.values());
      });
      if (!takes) continue;
      ++taken[name];
      check_same(without, result, wanted);
    }
  }
  return taken;
}

}  // namespace capstan::testing
