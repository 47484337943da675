#include "cut_tally.h"

#include "jsonl_data.h"
#include "renderings.h"
#include "template_options.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tokens/selected_source.h"

namespace jsonl {

using namespace capstan;

namespace {

std::string share_text(std::int64_t part, std::int64_t all) {
  constexpr double hundred = 100;
  const auto share = all > 0 ? hundred * static_cast<double>(part) / static_cast<double>(all) : 0.0;
  return cat(std::round(share * 10) / 10, " %");
}

// Which samples stay, and what is lost with the others.
struct Remaining {
  std::vector<std::int64_t> kept = {};
  std::int64_t first = -1;
  std::int64_t lost = 0;  // tokens that bear loss
  std::int64_t targets = 0;

  Remaining(const tokens::Lengths& lengths, std::int64_t most) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      targets += lengths[i].targets;
      if (lengths[i].tokens <= most) {
        kept.push_back(static_cast<std::int64_t>(i));
      } else {
        lost += lengths[i].targets;
        if (first < 0) first = static_cast<std::int64_t>(i);
      }
    }
  }
};

}  // namespace

void JsonlOptions::describe_selection(config::OptionTable<JsonlOptions>& t) {
  t.add("max_length", &JsonlOptions::max_length)
      .min(0)
      .doc("most tokens of a sample; 0: the model's; \"auto\": as many as the longest one has");
  t.add("too_long", &JsonlOptions::too_long)
      .choices({"error", "cut", "drop"})
      .doc(
          "a line of more tokens than max_length. error: it is named, and nothing begins; cut: a text loses its end, "
          "a prompt or a conversation its beginning, never the last answer; drop: it is left out");
  t.add("keep", &JsonlOptions::keep)
      .doc(
          "conditions for a line to be used, each as \"COLUMN SIGN VALUE\" with a sign of = != < <= > >= has: "
          "[\"language = en\", \"score >= 3\", \"tags has math\"]. All hold, before train_samples counts");
}

void CutTally::add(std::int64_t line) {
  const auto now = source_.cuts();
  if (now.losing > before_.losing) first_ = cut_.losing == 0 ? line : std::min(first_, line);
  cut_.all += now.all - before_.all;
  cut_.losing += now.losing - before_.losing;
  cut_.tokens += now.tokens - before_.tokens;
  before_ = now;
}

std::string CutTally::text(const Rows& file, std::int64_t most) const {
  if (cut_.losing == 0) return {};
  return cat(file.path(), ": ", thousands(cut_.losing), " of ", thousands(cut_.all), " ",
             plural(cut_.all, "line that is", "lines that are"), " cut to ", most, " tokens ",
             plural(cut_.losing, "loses", "lose"), " what bears loss, ", thousands(cut_.tokens), " ",
             plural(cut_.tokens, "token", "tokens"), " in all; the first is ", file.name(first_),
             R"(. data.too_long = "drop" leaves such lines out)");
}

tokens::Lengths JsonlData::lengths_of(const std::shared_ptr<const Rows>& file, std::int64_t samples, Turns written,
                                      data::SplitRequest request) const {
  constexpr std::int64_t longer_than_any = std::int64_t{1} << 30;
  request.max_length = longer_than_any;
  const auto renderings = written.renderings;
  const auto whole = source_of(file, samples, std::move(written), request, /*labels=*/false);
  std::size_t bytes = 0;
  for (std::int64_t i = 0; i < samples; ++i) bytes += file->line(i).size();
  const auto key = [&] {
    const auto& o = *options_;
    return cat(file->key(), samples, " ", join(o.columns), " ", o.turn, " ", o.system_turn.value_or(""), " ",
               o.user_turn.value_or(""), " ", o.assistant_turn.value_or(""), " ", o.loss, " ", o.pairs, " ",
               renderings ? renderings->key() : std::string(), "\n");
  };
  return tokens::lengths_of(*whole, *request.tokenizer,
                            {file->path(), kind().items, bytes, key, kept_files().folder, kept_files().advice});
}

tokens::Lengths JsonlData::lengths(const data::SplitRequest& request) const {
  Diagnostics diagnostics;  // an automatic length is asked for before check() is
  turns_of(options_, diagnostics);
  filters(diagnostics);
  columns(diagnostics);
  diagnostics.throw_if_any();
  const auto split = file_of(request);
  const auto file = read(split, diagnostics);
  diagnostics.throw_if_any();
  if (!file) return {};
  const auto samples = split.samples.value_or(file->size());
  return lengths_of(file, samples, written_of(request, file, samples), request);
}

std::shared_ptr<data::DataSource> JsonlData::without_long_lines(std::shared_ptr<const JsonlSource> source,
                                                                const tokens::Lengths& lengths, const Rows& file,
                                                                const data::SplitRequest& request) const {
  Remaining dropped(lengths, request.max_length);
  const auto all = source->size(), gone = all - static_cast<std::int64_t>(dropped.kept.size());
  if (dropped.kept.empty()) {
    throw Error(
        cat("none of its ", counted(all, "line"), " has at most ", request.max_length, " tokens (data.too_long)"),
        "raise data.max_length", file.path());
  }
  if (gone > 0) {
    warn_once(cat(file.path(), ": ", thousands(gone), " of ", thousands(all), " ", kind().items, " ",
                  plural(gone, "has", "have"), " more than ", request.max_length, " tokens and ",
                  plural(gone, "is", "are"), " left out (data.too_long), with ",
                  share_text(dropped.lost, dropped.targets), " of the tokens that bear loss (", thousands(dropped.lost),
                  " of ", thousands(dropped.targets), "); the first is ", file.name(dropped.first)));
  }
  return std::make_shared<tokens::SelectedSource>(std::move(source), std::move(dropped.kept));
}

std::shared_ptr<JsonlSource> JsonlData::source_of(std::shared_ptr<const Rows> file, std::int64_t samples, Turns written,
                                                  const data::SplitRequest& request, bool labels) const {
  return std::make_shared<JsonlSource>(std::move(file), samples, std::move(written), request,
                                       SampleOptions{.whole_sequence = options_->loss == "sequence",
                                                     .cut = options_->too_long == "cut",
                                                     .pairs = options_->pairs,
                                                     .labels = labels,
                                                     .sequences = form().sequences,
                                                     .numbers = options_->numbers,
                                                     .known = options_->known_keys(),
                                                     .teacher_words = options_->teacher_words,
                                                     .cuts = std::make_shared<CutSamples>()});
}

Filters JsonlData::filters(Diagnostics& diagnostics) const {
  const auto member = &JsonlOptions::keep;
  return {options_->keep, options_.name(member), options_.where(member), diagnostics};
}

KeptIn JsonlData::kept_files() const {
  return {options_->derived, cat("set ", options_.name(&JsonlOptions::derived), " to another folder")};
}

// The rows that are used; null after a fault was added.
std::shared_ptr<Rows> JsonlData::kept(std::shared_ptr<Rows> file, Diagnostics& diagnostics) const {
  Diagnostics said;  // by check
  const auto conditions = filters(said);
  if (!file || conditions.empty() || file->size() == 0) return file;
  try {
    auto rows = rows_kept_by(conditions, file, kept_files());
    warn_once(cat(file->path(), ": ", conditions.name(), " keeps ", thousands(rows->size()), " of ",
                  thousands(file->size()), " ", kind().items));
    return rows;
  } catch (const Error& error) {
    for (const auto& fault : error.diagnostics()) diagnostics.add(fault);
    return nullptr;
  }
}

void JsonlData::warn_once(const std::string& text) const {
  if (!text.empty() && said_.insert(text).second) log::warning(text);
}

}  // namespace jsonl
