#include "stream.h"

#include <capstan/base/text.h>
#include <capstan/data_parts/derived_options.h>

#include <array>

#include "streams/texts.h"

namespace stream {

using namespace capstan;

void StreamOptions::describe(config::OptionTable<StreamOptions>& t) {
  data::describe_split_files(t,
                             "file to train on: Megatron's .bin and .idx, by one of them or by what both begin with; "
                             "llm.c's .bin; a flat file of "
                             "ids (say dtype); or texts, which are tokenized once a node: .jsonl, .txt, a table "
                             "(.parquet, .arrow, .csv, also with .gz), "
                             "a folder of tables",
                             "file to evaluate on", {"rows", {}, {}});
  t.add("max_length", &StreamOptions::max_length)
      .min(0)
      .doc("tokens of a row, one more than the positions that are computed; 0: as many as the model has positions");
  t.add("fill", &StreamOptions::fill)
      .choices({"concat", "best_fit"})
      .doc(
          "concat: rows cut the documents as they follow one another, and all are full; best_fit: only documents "
          "longer than a row "
          "are cut, and each goes into the fullest row with room for it");
  t.add("window", &StreamOptions::window).min(1).doc("documents among which best_fit chooses at once");
  t.add("attend", &StreamOptions::attend)
      .choices({"document", "row"})
      .doc(
          "document: documents of a row see only themselves and have positions of their own, which needs data.packing "
          "= true, and "
          "their first tokens bear no loss; row: a row is one text");
  t.add("dtype", &StreamOptions::dtype)
      .choices(streams::type_names())
      .doc(
          "how a flat file writes ids, the lowest byte first; not set: the file is Megatron's or llm.c's, whose heads "
          "say it");
  t.add("end_id", &StreamOptions::end_id)
      .min(0)
      .doc("the id after which a document of a flat file ends; not set: it is one document");
  t.add("append_end", &StreamOptions::append_end)
      .doc(
          "put the tokenizer's end token after each document; not set: after texts, and not after documents of "
          "Megatron's files, "
          "which mostly have it");
  t.add("text", &StreamOptions::text).doc("the key or column that has the text");
  t.add("separator", &StreamOptions::separator)
      .doc(R"(what stands between the documents of a plain text, such as "\n\n"; not set: the file is one document)");
  data::describe_derived(t, &StreamOptions::python, &StreamOptions::derived);
}

// An option that no file asks for is one that was meant for another file.
void StreamData::check_options(const std::vector<data::SplitFile>& files, Diagnostics& diagnostics) const {
  std::array<bool, 3> any{};
  for (const auto& file : files) {
    if (!file.path.empty()) any[static_cast<std::size_t>(kind_of(file.path))] = true;
  }
  const auto has = [&](Kind kind) { return any[static_cast<std::size_t>(kind)]; };
  const StreamOptions defaults;  // a run's own config.toml sets every option, mostly to what it is anyway
  const auto refuse = [&](auto member, bool has_effect, const char* why) {
    if (has_effect || (*options_).*member == defaults.*member) return;
    diagnostics.add(options_.where(member), cat(options_.name(member), " has no effect: ", why), "take it out");
  };
  refuse(&StreamOptions::dtype, has(Kind::flat), "no file is a flat one of ids");
  refuse(&StreamOptions::end_id, has(Kind::flat), "it is for flat files of ids, and there is none");
  refuse(&StreamOptions::append_end, has(Kind::text) || has(Kind::megatron), "flat files say nothing of documents");
  refuse(&StreamOptions::text, has(Kind::text), "no file is one of texts");
  refuse(&StreamOptions::separator, has(Kind::text), "no file is one of texts");
  refuse(&StreamOptions::window, options_->fill == "best_fit", "data.fill is \"concat\"");
}

void StreamData::check(Diagnostics& diagnostics) const {
  const auto files = data::all_files(options_, diagnostics);
  const data::FileKind kind{"rows", "a file of tokens or texts", {}};
  for (const auto& file : files) {
    if (!is_there(file, diagnostics)) continue;
    try {
      if (kind_of(file.path) == Kind::text) {
        streams::open_texts(texts_of(file.path));
      } else {
        tokens_of(file.path);
      }
    } catch (const Error& error) {
      for (const auto& fault : error.diagnostics()) diagnostics.add(fault);
    }
  }
  if (!options_->train.empty()) check_options(files, diagnostics);  // else only an evaluation is read
  data::require_file(files[0], files[1], options_.section().origin.text(), kind, diagnostics);
}

}  // namespace stream
