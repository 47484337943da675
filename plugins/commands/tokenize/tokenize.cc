#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/json.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>

#include <iostream>

#include "named_tokenizer.h"
#include "to_stream.h"
#include "tokenize_lines.h"

namespace tokenize {
namespace {

using namespace capstan;

std::string text_of(const std::string& line, std::int64_t number) {
  const auto json = try_parse_json(line);
  if (json.is_object() && json.contains("text") && json.at("text").is_string()) return json.at("text").text();
  throw Error(cat("line ", number, " of the input is not a JSON object with a text"),
              R"(write one object a line, such as {"text": "Where is Paris?"})");
}

void append(std::vector<std::int64_t>& ids, const std::vector<std::int64_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

/// capstan tokenize TOKENIZER < LINES
/// capstan tokenize TOKENIZER --to stream --out corpus texts.jsonl
int run(const command::Call& call) {
  command::Arguments arguments;
  std::string name, to;
  bool special = false, has_no_begin = false, has_no_end = false;
  StreamJob job;
  arguments.value("tokenizer", name, "a model's folder or hub id, a tokenizer.json, a configuration, or byte")
      .required();
  const auto is_stream =
      arguments.value("--to", to, "stream: write Megatron's .bin and .idx, on all cores").one_of({"stream"});
  arguments.flag("--special", special, "with the begin and end tokens that it puts around a text").not_with(is_stream);
  const auto stream_only = [&](command::Argument argument) {
    return argument.only_with(is_stream).group("With --to stream");
  };
  stream_only(arguments.values("files", job.files,
                               "files with texts: .jsonl, .txt, tables (.parquet, .csv, …), folders of tables"));
  stream_only(arguments.value("--out", job.out, "corpus: write corpus.bin and corpus.idx"));
  stream_only(arguments.value("--text", job.input.key, "the key or column that has the text, by default text"));
  stream_only(arguments.value("--separator", job.input.separator, "what stands between the documents of a .txt file"));
  stream_only(
      arguments.flag("--no-begin", has_no_begin, "without the begin token that the tokenizer puts before a text"));
  stream_only(arguments.flag("--no-end", has_no_end, "without the end token after each document"));
  stream_only(arguments.value("--threads", job.rules.threads, "by default one for each core").range(1, 1024));
  stream_only(arguments.value("--python", job.input.python.program, "the Python with pyarrow that decodes tables"));
  if (const auto code = arguments.read(call)) return *code;
  if (!to.empty() && (job.files.empty() || job.out.empty())) {
    throw Error("--to stream needs files with texts, and --out",
                "capstan tokenize TOKENIZER --to stream --out corpus texts.jsonl");
  }
  const auto opened = named_tokenizer(name, call);
  if (!to.empty()) {
    job.rules.has_begin = !has_no_begin;
    job.rules.has_end = !has_no_end;
    to_stream(*opened.object, job);
    return static_cast<int>(ExitCode::success);
  }
  terminal::PrintedStream out(terminal::print);
  tokenize_lines(*opened.object, special, std::cin, out);
  return static_cast<int>(ExitCode::success);
}

}  // namespace

void tokenize_lines(const tokenizer::Tokenizer& tokenizer, bool special, std::istream& in, std::ostream& out) {
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const auto text = text_of(line, ++number);
    std::vector<std::int64_t> ids;
    if (special) append(ids, tokenizer.prefix_ids());
    append(ids, tokenizer.encode(text));
    if (special) append(ids, tokenizer.suffix_ids());
    Json answer;
    answer["ids"] = ids;
    answer["decoded"] = tokenizer.decode(ids);
    out << answer.dump() << '\n';
  }
  out.flush();
}

CAPSTAN_COMMAND("tokenize", "0.1.0",
                "read JSON lines {text: ...} from stdin, write {ids: [...], decoded: ...}; or files of text, write a "
                "stream of tokens",
                run)

}  // namespace tokenize
