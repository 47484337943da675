#include "bpe_tokenizer.h"

#include <capstan/base/error.h>
#include <capstan/tokenizer/utf8.h>

#include <algorithm>
#include <utility>

#include "byte_level.h"
#include "decode_steps.h"
#include "normalize.h"
#include "origins.h"
#include "split.h"

namespace hf {

using namespace capstan;
using tokenizer::TextRange;

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
  struct Wanted {
    bool ordinary = false;             // the names of special tokens are text
    const Origins* origins = nullptr;  // the origins of the text's bytes; null: no ranges are wanted
  };
  Encoding(const BpeTokenizer& tokenizer, std::string_view text, Wanted wanted)
      : tokenizer_(tokenizer), text_(text), wanted_(wanted) {
    ids_.reserve(text.size() / 3 + 8);
    scratch_.measures = traces();
    if (traces()) within_ = {text.data(), wanted.origins->data()};
    for (const auto& part : tokenizer.raw_tokens_.cut(tokenizer.classes_, text, wanted.ordinary)) {
      if (part.id >= 0) {
        add_token(part);
      } else if (tokenizer.spec_.normalizer.empty()) {
        find_normalized_tokens(part.text);
      } else {
        in_place_of(traced_normalized(tokenizer.spec_.normalizer, part.text, origins_of(part.text)),
                    [this](std::string_view changed) { find_normalized_tokens(changed); });
      }
    }
  }
  std::vector<std::int64_t> take() { return std::move(ids_); }
  std::vector<TextRange> take_ranges() { return std::move(ranges_); }

 private:
  bool traces() const { return wanted_.origins != nullptr; }
  // The origins of a piece of the text that is being cut; null where no ranges are wanted.
  const TextRange* origins_of(std::string_view piece) const {
    return traces() ? within_.from + (piece.data() - within_.text) : nullptr;
  }
  // Goes on with what a piece has become.
  template <class GoOn>
  void in_place_of(const Traced& changed, const GoOn& go_on) {
    const auto before = std::exchange(within_, {changed.text.data(), changed.from.data()});
    go_on(std::string_view(changed.text));
    within_ = before;
  }

  void add_token(const AddedTokens::Part& part) {
    ids_.push_back(part.id);
    const auto* from = origins_of(part.text);
    if (from) ranges_.push_back({from->begin, from[part.text.size() - 1].end});
  }

  // `from`: the origins of the bytes of the piece.
  void encode(std::string_view piece, const TextRange* from) {
    tokenizer_.model_.encode(piece, scratch_, ids_);
    if (!from || piece.empty()) return;
    std::size_t begin = 0;
    for (const auto& [skipped, size] : scratch_.extents) {
      const auto first = std::min(begin + skipped, piece.size() - 1);
      begin += skipped + size;
      ranges_.push_back({from[first].begin, from[std::clamp(begin, first + 1, piece.size()) - 1].end});
    }
  }

  void find_normalized_tokens(std::string_view text) {
    for (const auto& part : tokenizer_.normalized_tokens_.cut(tokenizer_.classes_, text, wanted_.ordinary)) {
      if (part.id >= 0) {
        add_token(part);
      } else {
        pre_tokenize(part.text, 0);
      }
    }
  }

  // Runs the pre-tokenizer's steps from `step` on, then the model, on `piece`.
  void pre_tokenize(std::string_view piece, std::size_t step) {
    const auto& steps = tokenizer_.spec_.pre_tokenizer;
    if (step == steps.size()) return encode(piece, origins_of(piece));
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
    if (!todo.prefix_space || piece.starts_with(' ')) return byte_level_spaced(piece, todo, step);
    const auto* from = origins_of(piece);
    Traced spaced{std::string(piece), from ? Origins(from, from + piece.size()) : Origins()};
    spaced.prepend(" ", traces());
    in_place_of(spaced, [&](std::string_view changed) { byte_level_spaced(changed, todo, step); });
  }

  void byte_level_spaced(std::string_view piece, const PreStep& todo, std::size_t step) {
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
    struct Part {
      std::string text;
      std::size_t begin;  // bytes of the piece before it; each is a character here
    };
    std::vector<Part> parts{{byte_level_text(piece), 0}};
    for (auto step = tokenizer_.mapped_from_; step < tokenizer_.spec_.pre_tokenizer.size(); ++step) {
      const auto& todo = tokenizer_.spec_.pre_tokenizer[step];
      std::vector<Part> next;
      for (const auto& [text, begin] : parts) {
        for (const auto& cut : pieces_at(text, todo.matches(text), todo.behavior, todo.invert)) {
          const auto before = std::string_view(text).substr(0, static_cast<std::size_t>(cut.data() - text.data()));
          next.push_back({std::string(cut), begin + byte_level_bytes(before).value().size()});
        }
      }
      parts = std::move(next);
    }
    const auto* from = origins_of(piece);
    for (const auto& [text, begin] : parts) encode(byte_level_bytes(text).value(), from ? from + begin : nullptr);
  }

  void metaspace(std::string_view piece, const PreStep& todo, std::size_t step) {
    const bool begins_text = piece.data() == text_.data();
    auto changed = traced_replaced(TextPattern(" "), piece, todo.replacement, origins_of(piece));
    const bool wanted =
        todo.prepend == PreStep::Prepend::always || (todo.prepend == PreStep::Prepend::first && begins_text);
    if (wanted && !changed.text.starts_with(todo.replacement)) changed.prepend(todo.replacement, traces());
    in_place_of(changed, [&](std::string_view rest) {
      while (!rest.empty()) {
        const auto end = todo.cut ? rest.find(todo.replacement, 1) : std::string_view::npos;
        pre_tokenize(rest.substr(0, end), step + 1);
        rest.remove_prefix(std::min(end, rest.size()));
      }
    });
  }

  const BpeTokenizer& tokenizer_;
  std::string_view text_;
  Wanted wanted_;
  // The text that is being cut, given or changed, and the origins of its bytes.
  struct Within {
    const char* text = nullptr;
    const TextRange* from = nullptr;
  };
  Within within_;
  Bpe::Scratch scratch_;
  std::vector<std::int64_t> ids_;
  std::vector<TextRange> ranges_;
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
  if (is_ascii(text)) return Encoding(*this, text, {}).take();
  const auto well_formed = tokenizer::repair_utf8(text);
  return Encoding(*this, well_formed, {}).take();
}

tokenizer::Encoded BpeTokenizer::encode_with_ranges(std::string_view text) const {
  const auto well_formed = tokenizer::repair_utf8(text);
  const auto origins = origins_of_repaired(text);
  Encoding encoding(*this, well_formed, {.origins = &origins});
  return {encoding.take(), encoding.take_ranges()};
}

std::vector<std::int64_t> BpeTokenizer::encode_ordinary(std::string_view text) const {
  const auto well_formed = tokenizer::repair_utf8(text);
  return Encoding(*this, well_formed, {.ordinary = true}).take();
}

bool BpeTokenizer::is_special(std::int64_t id) const {
  const auto found = tokens_.find(id);
  return found != tokens_.end() && found->second.special;
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
