#include "token_classes.h"

#include <algorithm>
#include <map>

namespace hf {

namespace {

using NamedTokens = std::vector<std::pair<std::string, std::string>>;

// Transformers 5.17 has these classes for a BPE.
const std::map<std::string, NamedTokens>& classes() {
  static const std::string end = "<|endoftext|>";
  static const NamedTokens llama{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  static const NamedTokens qwen{{"eos_token", end}, {"unk_token", end}, {"pad_token", end}};
  static const std::map<std::string, NamedTokens> all{
      {"LlamaTokenizer", llama},
      {"CodeLlamaTokenizer", llama},
      {"Qwen2Tokenizer", qwen},
      {"Qwen3_5Tokenizer", qwen},
      {"GPT2Tokenizer", {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}}},
      {"GPTNeoXTokenizer", {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}, {"pad_token", "<|padding|>"}}},
      {"GemmaTokenizer",
       {{"bos_token", "<bos>"},
        {"eos_token", "<eos>"},
        {"unk_token", "<unk>"},
        {"pad_token", "<pad>"},
        {"mask_token", "<mask>"}}},
      {"CohereTokenizer",
       {{"bos_token", "<BOS_TOKEN>"},
        {"eos_token", "<|END_OF_TURN_TOKEN|>"},
        {"unk_token", "<UNK>"},
        {"sep_token", "<SEP>"},
        {"pad_token", "<PAD>"},
        {"cls_token", "<CLS>"},
        {"mask_token", "<MASK_TOKEN>"}}}};
  return all;
}

}  // namespace

NamedTokens default_tokens(const std::string& tokenizer_class) {
  const auto found = classes().find(tokenizer_class);
  return found == classes().end() ? NamedTokens() : found->second;
}

bool builds_prefix_space(const std::string& tokenizer_class) {
  return tokenizer_class != "GemmaTokenizer" && classes().contains(tokenizer_class);
}

bool has_prefix_space(const TokenizerSpec& spec) {
  return std::any_of(spec.normalizer.begin(), spec.normalizer.end(),
                     [](const auto& step) { return step.kind == NormalizeStep::Kind::prepend; }) ||
         std::any_of(spec.pre_tokenizer.begin(), spec.pre_tokenizer.end(), [](const auto& step) {
           return step.prefix_space ||
                  (step.kind == PreStep::Kind::metaspace && step.prepend != PreStep::Prepend::never);
         });
}

}  // namespace hf
