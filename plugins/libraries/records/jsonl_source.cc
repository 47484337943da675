#include "jsonl_source.h"

#include "conversations.h"
#include "label.h"
#include "numbers.h"
#include "renderings.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "tokens/lengths.h"

namespace jsonl {

using namespace capstan;

namespace {

using Ids = std::vector<std::int64_t>;

void append(const Ids& more, Ids& ids) { ids.insert(ids.end(), more.begin(), more.end()); }

// What a sample keeps where its beginning is cut. A rendering has its own begin token, if any.
Ids beginning(const Record& record, const tokenizer::Tokenizer& tokenizer) {
  return record.begins_with ? tokenizer.encode(*record.begins_with) : tokenizer.prefix_ids();
}

Ids first_ids(const Record& record, const tokenizer::Tokenizer& tokenizer, const std::string& text) {
  auto ids = record.begins_with ? Ids() : tokenizer.prefix_ids();
  append(tokenizer.encode(text), ids);
  return ids;
}

void append_end(const Record& record, const tokenizer::Tokenizer& tokenizer, Ids& ids) {
  if (record.needs_end && tokenizer.end_id() >= 0) ids.push_back(tokenizer.end_id());
}

// Where each piece ends if the pieces' own tokens are those of the text, as they are between special tokens. Empty:
// they are not.
std::vector<std::size_t> ends_of_own_tokens(const Record& record, const tokenizer::Tokenizer& tokenizer,
                                            const Ids& tokens) {
  std::vector<std::size_t> ends;
  Ids ids = first_ids(record, tokenizer, {});
  for (const auto& piece : record.pieces) {
    append(tokenizer.encode(piece.text), ids);
    ends.push_back(ids.size());
  }
  const bool is_same = ids.size() <= tokens.size() && std::equal(ids.begin(), ids.end(), tokens.begin());
  return is_same ? ends : std::vector<std::size_t>();
}

// Where each piece ends: the next one begins at the first token that differs from those of the text before it. The last
// piece ends at the end of the sample, its end token included.
std::vector<std::size_t> ends_of_pieces(const Record& record, const tokenizer::Tokenizer& tokenizer,
                                        const Ids& tokens) {
  constexpr std::size_t many = 3;  // all texts before pieces together have the square of their tokens
  auto ends = record.pieces.size() < many ? std::vector<std::size_t>() : ends_of_own_tokens(record, tokenizer, tokens);
  if (ends.empty()) {
    std::string before;
    for (const auto& piece : record.pieces) {
      before += piece.text;
      if (&piece == &record.pieces.back()) break;
      const auto ids = first_ids(record, tokenizer, before);
      const auto same = std::mismatch(ids.begin(), ids.end(), tokens.begin(), tokens.end()).first;
      ends.push_back(std::max(ends.empty() ? 0 : ends.back(), static_cast<std::size_t>(same - ids.begin())));
    }
    ends.emplace_back();
  }
  ends.back() = tokens.size();
  return ends;
}

// Which tokens bear loss, those of answers or all but those of silent pieces, and where the last answer begins.
void mark_targets(const Record& record, const tokenizer::Tokenizer& tokenizer, bool all, data::Sample& sample) {
  sample.is_target.assign(sample.tokens.size(), false);
  const auto ends = ends_of_pieces(record, tokenizer, sample.tokens);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < record.pieces.size(); ++i) {
    const auto& piece = record.pieces[i];
    if (piece.is_answer || (all && !piece.is_silent)) {
      std::fill(sample.is_target.begin() + static_cast<std::ptrdiff_t>(begin),
                sample.is_target.begin() + static_cast<std::ptrdiff_t>(ends[i]), true);
    }
    if (record.prompt > 0 ? i == record.prompt : piece.is_answer)
      sample.prompt_length = static_cast<std::int64_t>(begin);
    begin = ends[i];
  }
}

// If the first token of the joined text spans the whole prompt, nothing of the prompt is left to start from: prompt and
// answer are tokenised separately.
void part_prompt(const Record& record, const tokenizer::Tokenizer& tokenizer, bool all, data::Sample& sample) {
  std::string prompt;
  for (const auto& piece : record.pieces) {
    if (&piece != &record.pieces.back()) prompt += piece.text;
  }
  const bool is_left = sample.prompt_length > static_cast<std::int64_t>(tokenizer.prefix_ids().size());
  if (record.begins_with || record.reference.empty() || prompt.empty() || is_left) return;
  sample.tokens = first_ids(record, tokenizer, prompt);
  sample.prompt_length = static_cast<std::int64_t>(sample.tokens.size());
  append(tokenizer.encode(record.pieces.back().text), sample.tokens);
  append_end(record, tokenizer, sample.tokens);
  sample.is_target.assign(sample.tokens.size(), true);
  std::fill_n(sample.is_target.begin(), sample.prompt_length, all);
}

// All of a record, however long; with `all` its prompt bears loss too.
data::Sample whole_sample(const Record& record, const tokenizer::Tokenizer& tokenizer, bool all = false) {
  CAPSTAN_ASSERT(record.begins_with || !record.pieces.empty());  // conversations are rendered by now
  std::string text;
  for (const auto& piece : record.pieces) text += piece.text;
  data::Sample sample;
  sample.id = record.id;
  sample.tokens = first_ids(record, tokenizer, text);
  append_end(record, tokenizer, sample.tokens);
  mark_targets(record, tokenizer, all, sample);
  part_prompt(record, tokenizer, all, sample);
  if (!record.reference.empty()) sample.references = {record.reference};
  return sample;
}

[[noreturn]] void refuse_too_long(const data::Sample& sample, std::int64_t most, const std::string& where) {
  throw Error(cat("the line has ", sample.tokens.size(), " tokens, max_length is ", most),
              R"(raise data.max_length, take the line out, or set data.too_long = "cut" or "drop")", where);
}

// Removes the first tokens after the tokenizer's own.
void drop_beginning(data::Sample& sample, std::size_t count, std::size_t prefix) {
  const auto erase = [&](auto& list) {
    const auto from = list.begin() + static_cast<std::ptrdiff_t>(prefix);
    list.erase(from, from + static_cast<std::ptrdiff_t>(count));
  };
  erase(sample.tokens);
  erase(sample.is_target);
  for (auto& field : sample.fields) std::visit(erase, field);
  sample.prompt_length -= static_cast<std::int64_t>(count);
}

std::int64_t targets_of(const data::Sample& sample) { return tokens::length_of(sample).targets; }

// Counts a sample that has fewer tokens that bear loss than before.
void count_cut(const SampleOptions& options, std::int64_t before, std::int64_t after) {
  if (!options.cuts) return;
  ++options.cuts->all;
  if (before > after) ++options.cuts->losing;
  options.cuts->tokens += before - after;
}

// Removes the first `removed` tokens after the prefix, but nothing of the last answer.
void cut_beginning(data::Sample& sample, std::size_t removed, std::size_t prefix, const std::string& where) {
  const auto all = sample.tokens.size();
  if (prefix + removed > static_cast<std::size_t>(sample.prompt_length)) {
    const auto answer = all - static_cast<std::size_t>(sample.prompt_length) + prefix;
    throw Error(cat("the last answer by itself has ", answer, " tokens, max_length is ", all - removed),
                cat("raise data.max_length to ", answer, " or more, or take the line out"), where);
  }
  drop_beginning(sample, removed, prefix);
}

// Removes tokens from a sample that has too many, as make_sample says.
void cut(data::Sample& sample, bool is_text, std::size_t most, std::size_t prefix, const std::string& where) {
  if (!is_text) return cut_beginning(sample, sample.tokens.size() - most, prefix, where);
  const auto shorten = [&](auto& list) { list.resize(most); };
  shorten(sample.tokens);
  shorten(sample.is_target);
  for (auto& field : sample.fields) std::visit(shorten, field);
}

}  // namespace

data::Sample make_sample(const Record& record, const std::string& where, const data::SplitRequest& request,
                         const SampleOptions& options) {
  auto sample = whole_sample(record, *request.tokenizer, options.whole_sequence);
  const auto most = static_cast<std::size_t>(request.max_length);
  if (options.teacher_words > 0)
    sample.fields = teacher_values(record.teacher, sample, options.teacher_words, request.vocab_size, where);
  if (sample.tokens.size() > most) {
    if (!options.cut) refuse_too_long(sample, request.max_length, where);
    const auto before = targets_of(sample);
    cut(sample, record.is_text, most, beginning(record, *request.tokenizer).size(), where);
    count_cut(options, before, targets_of(sample));
  }
  if (record.reference.empty()) sample.prompt_length = 0;
  return sample;
}

data::Sample make_pair_sample(const Pair& pair, const std::string& where, const data::SplitRequest& request,
                              const SampleOptions& options) {
  auto chosen = whole_sample(pair.chosen, *request.tokenizer);
  auto rejected = whole_sample(pair.rejected, *request.tokenizer);
  const bool is_second_longer = chosen.tokens.size() < rejected.tokens.size();
  auto& longer = is_second_longer ? rejected : chosen;
  const auto most = static_cast<std::size_t>(request.max_length);
  if (longer.tokens.size() > most) {
    if (!options.cut) refuse_too_long(longer, request.max_length, where);
    const auto removed = longer.tokens.size() - most, prefix = beginning(pair.chosen, *request.tokenizer).size();
    const auto before = targets_of(chosen) + targets_of(rejected);
    cut_beginning(longer, removed, prefix, where);
    cut_beginning(is_second_longer ? chosen : rejected, removed, prefix, where);
    count_cut(options, before, targets_of(chosen) + targets_of(rejected));
  }
  chosen.others.push_back({std::move(rejected.tokens), std::move(rejected.is_target)});
  return chosen;
}

data::Sample make_mixed_sample(const Record& record, const Record& other, const std::string& where,
                               const data::SplitRequest& request, const SampleOptions& options) {
  auto sample = make_sample(record, where, request, options);
  const auto answer = whole_sample(other, *request.tokenizer);
  const auto append_part = [](const auto& from, std::int64_t begin, std::int64_t end, auto& to) {
    to.insert(to.end(), from.begin() + begin, from.begin() + end);
  };
  data::Sample mixed;
  mixed.prompt_length = sample.prompt_length;
  append_part(sample.tokens, 0, sample.prompt_length, mixed.tokens);
  append_part(answer.tokens, answer.prompt_length, std::ssize(answer.tokens), mixed.tokens);
  mixed.is_target.assign(static_cast<std::size_t>(mixed.prompt_length), false);
  append_part(answer.is_target, answer.prompt_length, std::ssize(answer.tokens), mixed.is_target);
  const auto prefix = std::min(std::ssize(beginning(record, *request.tokenizer)), mixed.prompt_length);
  const auto over = std::max<std::int64_t>(0, std::ssize(mixed.tokens) - request.max_length);
  drop_beginning(mixed, static_cast<std::size_t>(std::min(over, mixed.prompt_length - prefix)),
                 static_cast<std::size_t>(prefix));
  const auto length = static_cast<std::size_t>(std::min(std::ssize(mixed.tokens), request.max_length));
  mixed.tokens.resize(length);
  mixed.is_target.resize(length);
  sample.others.push_back({std::move(mixed.tokens), std::move(mixed.is_target)});
  return sample;
}

data::Sample make_question(const Record& record, const std::string& where, const data::SplitRequest& request,
                           const SampleOptions& options, std::int64_t most) {
  auto sample = whole_sample(record, *request.tokenizer);
  if (!options.cut && static_cast<std::int64_t>(sample.tokens.size()) > request.max_length)
    refuse_too_long(sample, request.max_length, where);
  if (record.reference.empty()) sample.prompt_length = 0;
  sample.tokens.resize(static_cast<std::size_t>(sample.prompt_length));
  sample.is_target.resize(sample.tokens.size());
  const auto room = std::min(most, request.max_length);
  if (!options.cut || sample.prompt_length <= room) return sample;
  const auto prefix = beginning(record, *request.tokenizer).size();
  if (room <= static_cast<std::int64_t>(prefix)) {
    throw Error(
        cat("besides an answer there is room for ", std::max<std::int64_t>(0, room), " tokens: none of a prompt"),
        "lower train.max_new_tokens, or raise data.max_length", where);
  }
  drop_beginning(sample, static_cast<std::size_t>(sample.prompt_length - room), prefix);
  return sample;
}

JsonlSource::JsonlSource(std::shared_ptr<const Rows> file, std::int64_t samples, Turns turns,
                         data::SplitRequest request, SampleOptions options)
    : file_(std::move(file)),
      samples_(samples),
      turns_(std::move(turns)),
      request_(std::move(request)),
      options_(std::move(options)) {
  CAPSTAN_ASSERT(request_.tokenizer && request_.max_length > 0 && samples_ <= file_->size());
  const auto end = turns_.renderings ? turns_.renderings->head().turn_end : turns_.assistant_end();
  const Conversations conversations(*file_, options_.pairs, turns_);
  if (!end.empty() && conversations.any(samples_)) end_ = turn_end(end, *request_.tokenizer);
  if (options_.labels) check_prompts();
}

// A sample has the answer to another prompt, too.
void JsonlSource::check_prompts() const {
  const auto prompt_at = [this](std::int64_t line) {
    return prompt_of(read_record(*file_, line, turns_, options_.known));
  };
  for (std::int64_t line = 1; line < samples_; ++line) {
    if (prompt_at(line) != prompt_at(0)) return;
  }
  throw Error("no line has another prompt: with data.labels a sample has the answer to another one, too",
              "add lines with other prompts", file_->path());
}

data::Sample JsonlSource::get(std::int64_t index) const {
  const auto where = file_->where(index);
  auto numbers = read_numbers(*file_, index, options_.numbers, options_.sequences);
  data::Sample sample;
  if (options_.pairs) {
    sample = make_pair_sample(read_pair(*file_, index, turns_, options_.known), where, request_, options_);
  } else {
    auto record = read_record(*file_, index, turns_, options_.known);
    if (options_.teacher_words > 0) record.teacher = read_teacher(*file_, index, options_.teacher_words);
    sample = options_.labels ? labelled(record, index) : make_sample(record, where, request_, options_);
  }
  sample.fields.insert(sample.fields.begin(), numbers.begin(), numbers.end());
  return sample;
}

// With the answer of the nearest line before it that has another prompt; the last line is before the first.
data::Sample JsonlSource::labelled(const Record& record, std::int64_t index) const {
  const auto where = file_->where(index);
  const auto label = read_label(*file_, index, record);
  if (record.reference.empty())
    throw Error("no answer of the assistant's follows the prompt, but data.labels says whether one is wanted",
                "end it with an answer that is not empty, or remove it", where);
  const auto prompt = prompt_of(record);
  auto other = record;
  for (std::int64_t back = 1; back < samples_ && prompt_of(other) == prompt; ++back)
    other = read_record(*file_, (index + samples_ - back) % samples_, turns_, options_.known);
  auto sample = make_mixed_sample(record, other, where, request_, options_);
  sample.fields.emplace_back(std::vector<std::int64_t>{label ? 1 : 0});
  return sample;
}

std::string JsonlSource::content() const {
  auto content = file_->content();
  if (!turns_.renderings) return content;
  const auto& head = turns_.renderings->head();
  return cat(content, content.empty() ? "" : ", ", "chat template ", head.source.substr(0, 16),
             head.date ? ", date " + *head.date : "");
}

data::Sample JsonlSource::question(std::int64_t index, std::int64_t most) const {
  const auto& known = options_.known;
  const auto record =
      options_.pairs ? read_pair(*file_, index, turns_, known).chosen : read_record(*file_, index, turns_, known);
  return make_question(record, file_->where(index), request_, options_, most);
}

monitor::Values JsonlSource::score(const data::Sample& sample, const std::string& text) const {
  if (sample.references.empty()) return {};
  return {{"exact_match", trim(text) == trim(sample.references.front()) ? 100.0 : 0.0}};
}

}  // namespace jsonl
