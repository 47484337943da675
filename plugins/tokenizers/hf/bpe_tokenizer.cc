#include "bpe_tokenizer.h"

#include <capstan/base/error.h>
#include <capstan/tokenizer/utf8.h>

#include <algorithm>
#include <utility>

#include "byte_level.h"
#include "decode_steps.h"
#include "normalize.h"
#include "split.h"

namespace hf {

using namespace capstan;

namespace {

bool maps_bytes(const PreStep& step) { return step.kind == PreStep::Kind::byte_level; }

bool is_byte_level(const TokenizerSpec& spec) {
  return std::any_of(spec.pre_tokenizer.begin(), spec.pre_tokenizer.end(), maps_bytes);
}

// Past the end: no step comes after ByteLevel.
std::size_t first_mapped(const std::vector<PreStep>& steps) {
  const auto found = std::find_if(steps.begin(), steps.end(), maps_bytes);
  const auto next = static_cast<std::size_t>(found - steps.begin()) + 1;
  return next < steps.size() ? next : steps.size() + 1;
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
      } else if (tokenizer.spec_.normalizer.empty()) {
        find_normalized_tokens(part.text);
      } else {
        find_normalized_tokens(normalized(tokenizer.spec_.normalizer, part.text));
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
    const auto& steps = tokenizer_.spec_.pre_tokenizer;
    if (step == steps.size()) return tokenizer_.model_.encode(piece, scratch_, ids_);
    const auto& todo = steps[step];
    switch (todo.kind) {
      case PreStep::Kind::known_split:
        cut(piece, todo.known, step + 1);
        break;
      case PreStep::Kind::split:
        for (const auto& part : pieces_at(piece, todo.matches(piece), todo.behavior, todo.invert))
          pre_tokenize(part, step + 1);
        break;
      case PreStep::Kind::metaspace:
        metaspace(piece, todo, step);
        break;
      case PreStep::Kind::byte_level:
        byte_level(piece, todo, step);
        break;
    }
  }

  void cut(std::string_view piece, SplitPattern pattern, std::size_t next) {
    while (!piece.empty()) {
      const auto size = first_piece(pattern, tokenizer_.classes_, piece);
      if (next == tokenizer_.mapped_from_) {
        cut_mapped(piece.substr(0, size));
      } else {
        pre_tokenize(piece.substr(0, size), next);
      }
      piece.remove_prefix(size);
    }
  }

  void byte_level(std::string_view piece, const PreStep& todo, std::size_t step) {
    std::string spaced;
    if (todo.prefix_space && !piece.starts_with(' ')) piece = spaced.append(" ").append(piece);
    if (todo.cut) {
      cut(piece, SplitPattern::gpt2, step + 1);
    } else if (step + 1 == tokenizer_.mapped_from_) {
      cut_mapped(piece);
    } else {
      pre_tokenize(piece, step + 1);
    }
  }

  // Steps that come after ByteLevel cut its characters, and may cut between the bytes of one of the text's.
  void cut_mapped(std::string_view piece) {
    std::vector<std::string> parts{byte_level_text(piece)};
    for (auto step = tokenizer_.mapped_from_; step < tokenizer_.spec_.pre_tokenizer.size(); ++step) {
      const auto& todo = tokenizer_.spec_.pre_tokenizer[step];
      std::vector<std::string> next;
      for (const auto& part : parts) {
        for (const auto& cut : pieces_at(part, todo.matches(part), todo.behavior, todo.invert)) next.emplace_back(cut);
      }
      parts = std::move(next);
    }
    for (const auto& part : parts) tokenizer_.model_.encode(byte_level_bytes(part).value(), scratch_, ids_);
  }

  void metaspace(std::string_view piece, const PreStep& todo, std::size_t step) {
    const bool begins_text = piece.data() == text_.data();
    auto text = TextPattern(" ").replaced(piece, todo.replacement);
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

BpeTokenizer::BpeTokenizer(std::string name, TokenizerSpec spec, SpecialIds special)
    : name_(std::move(name)),
      special_(std::move(special)),
      spec_(std::move(spec)),
      mapped_from_(first_mapped(spec_.pre_tokenizer)),
      model_(spec_.model, is_byte_level(spec_)) {
  for (const auto& [text, id] : spec_.model.vocabulary) tokens_[id] = {text, false};
  for (const auto& token : spec_.added) {
    tokens_[token.id] = {token.content, token.special};
    if (token.normalized) {
      normalized_tokens_.add(token, normalized(spec_.normalizer, token.content));
    } else {
      raw_tokens_.add(token, token.content);
    }
  }
  for (const auto& [id, token] : tokens_) vocab_size_ = std::max(vocab_size_, id + 1);
  spec_.model = {};
  spec_.added = {};
}

std::vector<std::int64_t> BpeTokenizer::encode(std::string_view text) const {
  if (is_ascii(text)) return Encoding(*this, text).take();
  const auto well_formed = tokenizer::repair_utf8(text);
  return Encoding(*this, well_formed).take();
}

std::string BpeTokenizer::decode(const std::vector<std::int64_t>& ids) const {
  std::vector<std::string> tokens;
  for (const auto id : ids) {
    const auto found = tokens_.find(id);
    if (found != tokens_.end() && !found->second.special) tokens.push_back(found->second.text);
  }
  return decode_tokens(spec_.decoder, std::move(tokens));
}

bool BpeTokenizer::is_end(std::int64_t id) const {
  return std::find(special_.ends.begin(), special_.ends.end(), id) != special_.ends.end();
}

}  // namespace hf
