#include "jsonl_source.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

namespace jsonl {

using namespace capstan;

namespace {

using Ids = std::vector<std::int64_t>;

Ids first_ids(const data::Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.prefix_ids();
  const auto more = tokenizer.encode(text);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

// Which tokens belong to answers, and where the last answer begins.
void mark_answers(const Record& record, const data::Tokenizer& tokenizer, data::Sample& sample) {
  sample.is_target.assign(sample.tokens.size(), false);
  std::string before;
  std::size_t begin = 0;
  for (const auto& piece : record.pieces) {
    before += piece.text;
    const auto ids = first_ids(tokenizer, before);
    const auto same = std::mismatch(ids.begin(), ids.end(), sample.tokens.begin(), sample.tokens.end()).first;
    // The last piece ends where everything does, its end token included.
    const bool is_last = &piece == &record.pieces.back();
    const auto end = is_last ? sample.tokens.size() : std::max(begin, static_cast<std::size_t>(same - ids.begin()));
    if (piece.is_answer) {
      std::fill(sample.is_target.begin() + static_cast<std::ptrdiff_t>(begin),
                sample.is_target.begin() + static_cast<std::ptrdiff_t>(end), true);
      sample.prompt_length = static_cast<std::int64_t>(begin);
    }
    begin = end;
  }
}

// Takes tokens out of a sample that has too many, as make_sample says.
void cut(data::Sample& sample, bool is_text, std::size_t most, std::size_t prefix, const std::string& where) {
  const auto all = sample.tokens.size();
  if (is_text) {
    sample.tokens.resize(most);
    sample.is_target.resize(most);
    return;
  }
  const auto removed = all - most;
  const auto from = prefix + removed;
  if (from > static_cast<std::size_t>(sample.prompt_length)) {
    const auto answer = all - static_cast<std::size_t>(sample.prompt_length) + prefix;
    throw Error(cat("the last answer alone has ", answer, " tokens, max_length is ", most),
                cat("raise data.max_length to ", answer, " or more, or take the line out"), where);
  }
  const auto erase = [&](auto& list) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(prefix), list.begin() + static_cast<std::ptrdiff_t>(from));
  };
  erase(sample.tokens);
  erase(sample.is_target);
  sample.prompt_length -= static_cast<std::int64_t>(removed);
}

}  // namespace

data::Sample make_sample(const Record& record, const std::string& where, const data::OpenRequest& request,
                         const SampleOptions& options) {
  const auto& tokenizer = *request.tokenizer;
  std::string text;
  for (const auto& piece : record.pieces) text += piece.text;
  data::Sample sample;
  sample.id = record.id;
  sample.tokens = first_ids(tokenizer, text);
  if (record.needs_end && tokenizer.end_id() >= 0) sample.tokens.push_back(tokenizer.end_id());
  mark_answers(record, tokenizer, sample);
  const auto most = static_cast<std::size_t>(request.max_length);
  if (sample.tokens.size() > most) {
    if (!options.cut) {
      throw Error(cat("the line has ", sample.tokens.size(), " tokens, max_length is ", most),
                  R"(raise data.max_length, take the line out, or set data.too_long = "cut")", where);
    }
    cut(sample, record.is_text, most, tokenizer.prefix_ids().size(), where);
  }
  if (options.whole_sequence) sample.is_target.assign(sample.tokens.size(), true);
  if (record.reference.empty()) sample.prompt_length = 0;
  if (!record.reference.empty()) sample.references = {record.reference};
  return sample;
}

JsonlSource::JsonlSource(std::shared_ptr<const LineFile> file, std::int64_t samples, Turns turns,
                         data::OpenRequest request, SampleOptions options)
    : file_(std::move(file)),
      samples_(samples),
      turns_(std::move(turns)),
      request_(std::move(request)),
      options_(options) {
  CAPSTAN_ASSERT(request_.tokenizer && request_.max_length > 0 && samples_ <= file_->size());
}

data::Sample JsonlSource::get(std::int64_t index) const {
  return make_sample(read_record(*file_, index, turns_), file_->where(index), request_, options_);
}

monitor::Values JsonlSource::score(const data::Sample& sample, const std::string& text) const {
  if (sample.references.empty()) return {};
  return {{"exact_match", trim(text) == trim(sample.references.front()) ? 100.0 : 0.0}};
}

}  // namespace jsonl
