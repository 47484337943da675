#include "commands/data_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/printable.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include <capstan/plugin/host.h>
#include "cli/plugin_folders.h"
#include "commands/check_command.h"
#include "commands/cut_answers.h"
#include "data/collate.h"
#include "session/job.h"

namespace capstan::commands {
namespace {

using Ids = std::vector<std::int64_t>;

// Of a token that stands for no text. Twice, for a lone space may be stripped.
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

std::string percent(std::int64_t part, std::int64_t all) {
  return cat(all > 0 ? (100 * part + all / 2) / all : 0, " %");
}

std::string batch_text(const char* how, const data::HostBatch& batch) {
  return cat(how, ": ", batch.rows, " x ", batch.cols, " positions, ",
             percent(batch.padded_tokens() - batch.real_tokens, batch.padded_tokens()), " of them padding\n");
}

std::string counts_text(const session::Job& job, const std::vector<data::Sample>& samples) {
  std::vector<data::Row> rows;
  for (const auto& sample : samples) rows.push_back({&sample, static_cast<std::int64_t>(rows.size())});
  data::Padding padding;
  padding.pad_id = data::padding_id(*job.samples.tokenizer.object, job.plugins.model_facts.vocab_size);
  padding.multiple = job.config.train->pad_to_multiple;
  const auto apart = data::collate(rows, padding);
  auto text =
      cat("these ", samples.size(), ": ", thousands(apart.real_tokens), " positions, ", thousands(apart.target_tokens),
          " bear loss (", percent(apart.target_tokens, apart.real_tokens), ")\n", batch_text("as one batch", apart));
  if (job.plugins.data_options->packing)
    text += batch_text("packed", data::pack(rows, padding, std::max<std::int64_t>(1, job.samples.length - 1)));
  return text;
}

session::Job prepare(const DataArguments& arguments, const launch::Environment& env, plugin::Host& host) {
  Diagnostics diagnostics;
  setup::JobRequest request;
  request.file = arguments.config;
  request.overrides = arguments.overrides;
  request.hub = config::hub_cache(env);
  request.purpose = setup::Purpose::evaluate;
  auto job = session::prepare(request, host, diagnostics);
  diagnostics.throw_if_any();
  return std::move(*job);
}

}  // namespace

std::vector<SamplePart> sample_parts(const data::Sample& sample, const tokenizer::Tokenizer& tokenizer) {
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

int data_command(const DataArguments& arguments, const launch::Environment& env, bool terminal) {
  plugin::Host host(cli::plugin_folders(env), false, cli::trusts_writers(env));
  const auto job = prepare(arguments, env, host);
  const auto source = arguments.split == "train" ? job.samples.train : job.samples.eval;
  if (!source) {
    throw Error(cat("the configuration names no data for the split '", arguments.split, "'"),
                cat("set data.", arguments.split, ", or use --split ", arguments.split == "train" ? "eval" : "train"));
  }
  const auto size = source->size();
  if (arguments.from >= size) {
    throw Error(
        cat("--from ", arguments.from, " is after the last of ", thousands(size), " samples, which count from 0"),
        cat("use --from ", size - 1, " or less"));
  }
  std::vector<data::Sample> samples;
  for (auto i = arguments.from; i < std::min(size, arguments.from + arguments.show); ++i) {
    samples.push_back(job.samples.sample(*source, i));
    const auto& sample = samples.back();
    const auto targets =
        std::count(sample.is_target.begin() + (sample.is_target.empty() ? 0 : 1), sample.is_target.end(), true);
    terminal::print(cat("sample ", i, ", id ", printable(sample.id), ": ", sample.tokens.size(), " tokens, ", targets,
                        " bear loss, prompt of ", sample.prompt_length, "\n"));
    print_sample(sample_parts(sample, *job.samples.tokenizer.object), terminal);
  }
  terminal::print(cat(counts_text(job, samples), thousands(size), " samples in the split '", arguments.split, "'\n"));
  terminal::print(cut_answers_text(job, arguments.split == "train" ? data::Split::train : data::Split::eval));
  return static_cast<int>(ExitCode::success);
}

void add_data_command(CLI::App& app, cli::Chosen& chosen) {
  auto* command = app.add_subcommand("data", "print samples as the model sees them, what bears no loss dimmed");
  const auto given = std::make_shared<DataArguments>();
  cli::add_config_arguments(*command, {given->config, given->overrides});
  command->add_option("--show", given->show, "how many (default 3)")->check(CLI::Range(1, 1 << 20));
  command->add_option("--from", given->from, "the first one, from 0")->check(CLI::NonNegativeNumber);
  command->add_option("--split", given->split, "train or eval (default train)")
      ->check(CLI::IsMember({"train", "eval"}));
  cli::choose_with(*command, chosen, [given](const cli::Process& process) {
    return data_command(*given, process.env, ::isatty(STDOUT_FILENO) == 1);
  });
}

}  // namespace capstan::commands
