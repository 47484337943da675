#include "tokenizer/bpe_tokenizer.h"

#include <capstan/base/error.h>

#include <algorithm>
#include <utility>

#include "tokenizer/decode_steps.h"
#include "tokenizer/split.h"
#include "tokenizer/utf8.h"

namespace capstan::tokenizer {
namespace {

bool is_byte_level(const TokenizerSpec& spec) {
  return !spec.pre_tokenizer.empty() && spec.pre_tokenizer.back().kind == PreStep::Kind::byte_level;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

// One text on its way through the steps.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, std::string_view text) : tokenizer_(tokenizer), text_(text) {
    ids_.reserve(text.size() / 3 + 8);
    for (const auto& part : tokenizer.raw_tokens_.cut(tokenizer.classes_, text)) {
      if (part.id >= 0) {
        ids_.push_back(part.id);
      } else if (tokenizer.normalizer_.empty()) {
        find_normalized_tokens(part.text);
      } else {
        find_normalized_tokens(tokenizer.normalized(part.text));
      }
    }
  }
  std::vector<std::int64_t> take() { return std::move(ids_); }

 private:
  void find_normalized_tokens(std::string_view text) {
    for (const auto& part : tokenizer_.normalized_tokens_.cut(tokenizer_.classes_, text)) {
      if (part.id >= 0) {
        ids_.push_back(part.id);
      } else {
        pre_tokenize(part.text, 0);
      }
    }
  }

  // Runs the pre-tokenizer's steps from `step` on, then the model, on `piece`.
  void pre_tokenize(std::string_view piece, std::size_t step) {
    if (step == tokenizer_.pre_tokenizer_.size()) {
      tokenizer_.model_.encode(piece, scratch_, ids_);
      return;
    }
    const auto& todo = tokenizer_.pre_tokenizer_[step];
    switch (todo.kind) {
      case PreStep::Kind::split:
        cut(piece, todo.pattern, step);
        break;
      case PreStep::Kind::metaspace:
        metaspace(piece, todo, step);
        break;
      case PreStep::Kind::byte_level:
        byte_level(piece, todo, step);
        break;
    }
  }

  void cut(std::string_view piece, SplitPattern pattern, std::size_t step) {
    while (!piece.empty()) {
      const auto size = first_piece(pattern, tokenizer_.classes_, piece);
      pre_tokenize(piece.substr(0, size), step + 1);
      piece.remove_prefix(size);
    }
  }

  void byte_level(std::string_view piece, const PreStep& todo, std::size_t step) {
    std::string spaced;
    if (todo.prefix_space && !piece.starts_with(' ')) piece = spaced.append(" ").append(piece);
    if (todo.cut) {
      cut(piece, SplitPattern::gpt2, step);
    } else {
      pre_tokenize(piece, step + 1);
    }
  }

  void metaspace(std::string_view piece, const PreStep& todo, std::size_t step) {
    const bool begins_text = piece.data() == text_.data();
    auto text = replace_all(piece, " ", todo.replacement);
    const bool wanted =
        todo.prepend == PreStep::Prepend::always || (todo.prepend == PreStep::Prepend::first && begins_text);
    if (wanted && !text.starts_with(todo.replacement)) text.insert(0, todo.replacement);
    std::string_view rest = text;
    while (!rest.empty()) {
      const auto end = todo.cut ? rest.find(todo.replacement, 1) : std::string_view::npos;
      pre_tokenize(rest.substr(0, end), step + 1);
      rest.remove_prefix(std::min(end, rest.size()));
    }
  }

  const BpeTokenizer& tokenizer_;
  std::string_view text_;
  Bpe::Scratch scratch_;
  std::vector<std::int64_t> ids_;
};

BpeTokenizer::BpeTokenizer(std::string name, const TokenizerSpec& spec, SpecialIds special)
    : name_(std::move(name)),
      special_(std::move(special)),
      normalizer_(spec.normalizer),
      pre_tokenizer_(spec.pre_tokenizer),
      decoder_(spec.decoder),
      prefix_(spec.prefix),
      suffix_(spec.suffix),
      model_(spec.model, is_byte_level(spec)) {
  for (const auto& [text, id] : spec.model.vocabulary) tokens_[id] = {text, false};
  for (const auto& token : spec.added) {
    tokens_[token.id] = {token.content, token.special};
    if (token.normalized) {
      normalized_tokens_.add(token, normalized(token.content));
    } else {
      raw_tokens_.add(token, token.content);
    }
  }
  for (const auto& [id, token] : tokens_) vocab_size_ = std::max(vocab_size_, id + 1);
}

std::string BpeTokenizer::normalized(std::string_view text) const {
  std::string out(text);
  for (const auto& step : normalizer_) {
    if (step.kind == NormalizeStep::Kind::replace) {
      out = replace_all(out, step.pattern, step.content);
    } else if (!out.empty()) {
      out.insert(0, step.content);
    }
  }
  return out;
}

std::vector<std::int64_t> BpeTokenizer::encode(std::string_view text) const {
  if (is_ascii(text)) return Encoding(*this, text).take();
  const auto well_formed = repair_utf8(text);
  return Encoding(*this, well_formed).take();
}

std::string BpeTokenizer::decode(const std::vector<std::int64_t>& ids) const {
  std::vector<std::string> tokens;
  for (const auto id : ids) {
    const auto found = tokens_.find(id);
    if (found != tokens_.end() && !found->second.special) tokens.push_back(found->second.text);
  }
  return decode_tokens(decoder_, std::move(tokens));
}

bool BpeTokenizer::is_end(std::int64_t id) const {
  return std::find(special_.ends.begin(), special_.ends.end(), id) != special_.ends.end();
}

}  // namespace capstan::tokenizer
