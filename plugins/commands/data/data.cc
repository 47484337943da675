#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/printable.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/monitor/output_file.h>
#include <capstan/session/split_view.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "data_page.h"
#include "sample_text.h"
#include "statistics.h"

namespace looking {
namespace {

using namespace capstan;
using Ids = std::vector<std::int64_t>;

// Whether a token stands for no text. It is decoded twice over, since a lone space may be stripped.
bool is_silent(const tokenizer::Tokenizer& tokenizer, std::int64_t id) { return tokenizer.decode({id, id}).empty(); }

// The text that ids add to what stands before them; decoded with it, since a text's first piece may lose a space.
std::string added_text(const tokenizer::Tokenizer& tokenizer, const Ids& tokens, std::size_t begin, std::size_t end) {
  const auto first = tokens.begin();
  const auto before = tokenizer.decode({first, first + static_cast<std::ptrdiff_t>(begin)});
  const auto all = tokenizer.decode({first, first + static_cast<std::ptrdiff_t>(end)});
  return {std::mismatch(before.begin(), before.end(), all.begin(), all.end()).second, all.end()};
}

std::string text_of(const tokenizer::Tokenizer& tokenizer, const Ids& tokens, std::size_t begin, std::size_t end) {
  std::string text;
  for (auto at = begin; at < end;) {
    auto stop = at;
    while (stop < end && !is_silent(tokenizer, tokens[stop])) ++stop;
    text += added_text(tokenizer, tokens, at, stop);
    if (stop < end) text += cat("[id ", tokens[stop], "]");
    at = stop + 1;
  }
  return text;
}

struct DataArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string split = "train";  ///< or "eval"
  std::int64_t show = 3;        ///< samples
  std::int64_t from = 0;        ///< the first one
  bool statistics = false;      ///< of all samples, however many
  std::string html;             ///< a file for the page; empty: none
};

void print_parts(const std::vector<SamplePart>& parts, bool terminal) {
  for (const auto& part : parts) {
    if (part.bears_loss) {
      terminal::print(part.text);
    } else if (terminal) {
      terminal::print_dimmed(part.text);
    } else {
      terminal::print(cat("⟦", part.text, "⟧"));
    }
  }
  terminal::print("\n\n");
}

std::string values_text(const data::FieldValues& values) {
  constexpr std::size_t most = 8;
  std::string text;
  std::visit(
      [&](const auto& all) {
        for (std::size_t i = 0; i < std::min(most, all.size()); ++i) text += cat(i == 0 ? "" : " ", all[i]);
        if (all.size() > most) text += cat(" … (", thousands(static_cast<std::int64_t>(all.size())), " values)");
      },
      values);
  return text;
}

// A sample of one sequence has its counts in its first line, others at each sequence.
ShownSample shown(std::int64_t index, const data::Sample& sample, const session::SplitView& view) {
  const auto sequences = data::sequences_of(sample);
  const auto counts = [](const data::SequenceView& sequence) {
    return cat(sequence.tokens.size(), " tokens, ", targets_of(sequence), " bear loss");
  };
  const bool is_single = sequences.size() == 1;
  ShownSample made;
  made.head = cat("sample ", index, ", id ", printable(sample.id), ": ",
                  is_single ? counts(sequences.front()) : cat(sequences.size(), " sequences"), ", prompt of ",
                  sample.prompt_length);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    made.sequences.push_back({is_single ? std::string() : cat("sequence ", i + 1, ": ", counts(sequences[i])),
                              sequence_parts(sequences[i], view.tokenizer())});
  }
  const auto& fields = view.form().fields;
  constexpr std::size_t most_fields = 8;
  for (std::size_t i = 0; i < std::min({most_fields, fields.size(), sample.fields.size()}); ++i) {
    if (fields[i].name == data::source_field) continue;  // the id begins with its name
    made.fields.push_back(cat(fields[i].name, ": ", values_text(sample.fields[i])));
  }
  if (fields.size() > most_fields) made.fields.push_back(cat("… ", fields.size() - most_fields, " more fields"));
  return made;
}

void print(const ShownSample& sample, bool terminal) {
  terminal::print(sample.head + "\n");
  for (const auto& sequence : sample.sequences) {
    if (!sequence.head.empty()) terminal::print(sequence.head + "\n");
    print_parts(sequence.parts, terminal);
  }
  for (const auto& field : sample.fields) terminal::print(field + "\n");
  if (!sample.fields.empty()) terminal::print("\n");
}

std::string batch_text(const char* how, const session::BatchView& batch) {
  const auto all = batch.rows * batch.cols;
  return cat(how, ": ", batch.rows, " x ", batch.cols, " positions, ", percent(all - batch.real_tokens, all),
             " of them padding\n");
}

std::string counts_text(const session::SplitView& view, const std::vector<data::Sample>& samples) {
  const auto apart = view.batch(samples);
  const auto packed = view.packed(samples);
  return cat("these ", samples.size(), ": ", thousands(apart.real_tokens), " positions, ",
             thousands(apart.target_tokens), " bear loss (", percent(apart.target_tokens, apart.real_tokens), ")\n",
             batch_text("as one batch", apart), packed ? batch_text("packed", *packed) : "");
}

// They look at all samples, unless these are many and no one asked for it.
std::optional<Statistics> statistics_of(const DataArguments& arguments, const session::SplitView& view) {
  constexpr std::int64_t few = 10000;
  constexpr std::chrono::seconds between{5};
  if (!arguments.statistics && view.size() > few) return {};
  Counter counter([&](std::int64_t index) { return view.sample(index); }, SourceNames::of(view.form()));
  auto told = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < view.size(); ++i) {
    counter.add(view.sample(i));
    if (std::chrono::steady_clock::now() - told < between) continue;
    told = std::chrono::steady_clock::now();
    terminal::print_progress(cat(thousands(i + 1), " of ", thousands(view.size()), " samples"), false);
  }
  return counter.finish(view.max_length(), view.lengths());
}

void write_page(const DataArguments& arguments, const std::vector<std::string>& said,
                const std::optional<Statistics>& statistics, const std::vector<ShownSample>& samples) {
  const auto title = cat(std::filesystem::path(arguments.config).filename().string(), ": ", arguments.split);
  auto sentences_of_page = said;
  if (statistics) {
    const auto more = sentences(*statistics);
    sentences_of_page.insert(sentences_of_page.end(), more.begin(), more.end());
  }
  monitor::write_output(arguments.html,
                        data_page(title, sentences_of_page, statistics ? &*statistics : nullptr, samples));
  terminal::print(cat("written: ", arguments.html, "\n"));
}

int show(const DataArguments& arguments, const command::Call& call) {
  monitor::check_output(arguments.html);
  const auto split = arguments.split == "train" ? data::Split::train : data::Split::eval;
  const auto opened =
      session::SplitView::open(arguments.config, arguments.overrides, split, call.environment, call.plugins);
  const auto& view = *opened;
  const auto size = view.size();
  if (arguments.from >= size) {
    throw Error(
        cat("--from ", arguments.from, " is after the last of ", thousands(size), " samples, which count from 0"),
        cat("use --from ", size - 1, " or less"));
  }
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  std::vector<data::Sample> samples;
  std::vector<ShownSample> all_shown;
  for (auto i = arguments.from; i < std::min(size, arguments.from + arguments.show); ++i) {
    samples.push_back(view.sample(i));
    all_shown.push_back(shown(i, samples.back(), view));
    print(all_shown.back(), terminal);
  }
  const auto all = cat(thousands(size), " samples in the split '", arguments.split, "'");
  terminal::print(cat(counts_text(view, samples), all, "\n"));
  const auto cut = view.cut_answers();
  terminal::print(cut);
  const auto statistics = statistics_of(arguments, view);
  terminal::print(statistics ? statistics_text(*statistics) : "--statistics looks at all of them\n");
  if (!arguments.html.empty()) write_page(arguments, {all, trim(cut)}, statistics, all_shown);
  return static_cast<int>(ExitCode::success);
}

/// capstan data FILE …: prints samples, with counts
int run(const command::Call& call) {
  command::Arguments arguments;
  DataArguments given;
  arguments.configuration(given.config, given.overrides);
  arguments.value("--show", given.show, "how many (default 3)").range(1, 1 << 20);
  arguments.value("--from", given.from, "the first one, from 0").not_negative();
  arguments.value("--split", given.split, "train or eval (default train)").one_of({"train", "eval"});
  arguments.flag("--statistics", given.statistics,
                 "look at all samples, however many there are: lengths, what is cut, duplicates (by default of up to "
                 "10,000)");
  arguments.value("--html", given.html, "write a page with these samples and the statistics to this file");
  if (const auto code = arguments.read(call)) return *code;
  return show(given, call);
}

}  // namespace

std::vector<SamplePart> sequence_parts(const data::SequenceView& sample, const tokenizer::Tokenizer& tokenizer) {
  std::vector<SamplePart> parts;
  const auto is_target = [&](std::size_t t) { return t > 0 && sample.is_target[t]; };  // nothing predicts the first
  for (std::size_t begin = 0; begin < sample.tokens.size();) {
    auto end = begin;
    while (end < sample.tokens.size() && is_target(end) == is_target(begin)) ++end;
    if (auto text = text_of(tokenizer, sample.tokens, begin, end); !text.empty())
      parts.push_back({std::move(text), is_target(begin)});
    begin = end;
  }
  return parts;
}

CAPSTAN_COMMAND("data", "0.1.0", "print samples as the model sees them, what bears no loss dimmed, and lengths", run)

}  // namespace looking
