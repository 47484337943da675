#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/printable.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/session/split_view.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "sample_text.h"

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
};

void print_sample(const std::vector<SamplePart>& parts, bool terminal) {
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

std::int64_t targets_of(const data::SequenceView& sequence) {
  const auto& flags = sequence.is_target;
  return std::count(flags.begin() + (flags.empty() ? 0 : 1), flags.end(), true);
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
void print_whole(std::int64_t index, const data::Sample& sample, const session::SplitView& view, bool terminal) {
  const auto sequences = data::sequences_of(sample);
  const auto counts = [](const data::SequenceView& sequence) {
    return cat(sequence.tokens.size(), " tokens, ", targets_of(sequence), " bear loss");
  };
  const bool is_single = sequences.size() == 1;
  terminal::print(cat("sample ", index, ", id ", printable(sample.id), ": ",
                      is_single ? counts(sequences.front()) : cat(sequences.size(), " sequences"), ", prompt of ",
                      sample.prompt_length, "\n"));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (!is_single) terminal::print(cat("sequence ", i + 1, ": ", counts(sequences[i]), "\n"));
    print_sample(sequence_parts(sequences[i], view.tokenizer()), terminal);
  }
  const auto& fields = view.form().fields;
  constexpr std::size_t most_fields = 8;
  for (std::size_t i = 0; i < std::min({most_fields, fields.size(), sample.fields.size()}); ++i)
    terminal::print(cat(fields[i].name, ": ", values_text(sample.fields[i]), "\n"));
  if (fields.size() > most_fields) terminal::print(cat("… ", fields.size() - most_fields, " more fields\n"));
  if (!fields.empty()) terminal::print("\n");
}

std::string percent(std::int64_t part, std::int64_t all) {
  return cat(all > 0 ? (100 * part + all / 2) / all : 0, " %");
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

int show(const DataArguments& arguments, const command::Call& call) {
  const session::SplitView view(arguments.config, arguments.overrides,
                                arguments.split == "train" ? data::Split::train : data::Split::eval, call.environment,
                                call.plugins);
  const auto size = view.size();
  if (arguments.from >= size) {
    throw Error(
        cat("--from ", arguments.from, " is after the last of ", thousands(size), " samples, which count from 0"),
        cat("use --from ", size - 1, " or less"));
  }
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  std::vector<data::Sample> samples;
  for (auto i = arguments.from; i < std::min(size, arguments.from + arguments.show); ++i) {
    samples.push_back(view.sample(i));
    print_whole(i, samples.back(), view, terminal);
  }
  terminal::print(cat(counts_text(view, samples), thousands(size), " samples in the split '", arguments.split, "'\n"));
  terminal::print(view.cut_answers());
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

CAPSTAN_COMMAND("data", "0.1.0", "print samples as the model sees them, what bears no loss dimmed", run)

}  // namespace looking
