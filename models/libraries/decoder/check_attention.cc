#include "check_attention.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <string>
#include <vector>

namespace capstan::decoder {
namespace {

struct Field {
  const char* name;
  bool is_set;
};

// The reader of another block's keys makes its queries itself, by none of these.
std::vector<Field> not_with_shared_keys(const Spec& s) {
  return {{"output_gate", s.output_gate},
          {"norms_after_rotary", s.norms_after_rotary},
          {"query_scaling", s.query_scaling.has_value()},
          {"head_norms of all heads together", s.head_norms == Spec::HeadNorms::all},
          {"one module of q, k and v", s.names.qkv.size() == 1},
          {"latent", s.latent.has_value()}};
}

std::vector<Field> not_with_latents(const Spec& s) {
  return {{"qkv_bias", s.qkv_bias},
          {"output_gate", s.output_gate},
          {"query_scaling", s.query_scaling.has_value()},
          {"head_norms", s.head_norms != Spec::HeadNorms::none},
          {"norms_after_rotary", s.norms_after_rotary},
          {"norm_factor", s.norm_factor != nn::RmsNorm::Factor::weight},
          {"keys_are_values", s.keys_are_values},
          {"value_norm", s.value_norm},
          {"attention.sinks", s.attention.sinks},
          {"fewer key heads than query heads", s.attention.heads.keys != s.attention.heads.queries}};
}

std::vector<Field> not_in_one_module(const Spec& s) {
  const auto& heads = s.attention.heads;
  return {{"output_gate", s.output_gate},
          {"keys_are_values", s.keys_are_values},
          {"fewer key heads than query heads", heads.keys != heads.queries},
          {"values of another width than keys", heads.values() != heads.dim}};
}

// A norm takes back what its queries have grown by.
std::vector<Field> not_before_norms(const Spec& s) { return {{"query_scaling", s.query_scaling.has_value()}}; }

void refuse(const std::vector<Field>& fields, const char* kind, std::int64_t block) {
  std::vector<std::string> set;
  for (const auto& field : fields) {
    if (field.is_set) set.emplace_back(field.name);
  }
  if (set.empty()) return;
  throw Error(cat("decoder::Spec of block ", block, " has ", join(set), ", which ", kind, " does not compute"),
              "leave it out, or let the model make a layer of its own (Spec::token_mixer)");
}

}  // namespace

void check_attention(const Spec& spec, std::int64_t block) {
  CAPSTAN_ASSERT(!spec.latent || spec.rotary);
  if (spec.norms_after_rotary) refuse(not_before_norms(spec), "attention with norms after rotation", block);
  if (spec.sharing.gives || spec.sharing.of)
    refuse(not_with_shared_keys(spec), "attention that shares keys and values", block);
  if (spec.latent) {
    refuse(not_with_latents(spec), "attention through latents", block);
  } else if (spec.names.qkv.size() == 1) {
    refuse(not_in_one_module(spec), "attention with one module of q, k and v", block);
  }
}

}  // namespace capstan::decoder
