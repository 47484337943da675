// SQuAD as the hub's tables have it.
#include "plugins/data/squad/squad_file.h"

#include <capstan/base/paths.h>
#include <capstan/data_parts/subprocess.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "plugins/libraries/records/mapped_lines.h"
#include "plugins/libraries/tables/decoded_rows.h"
#include "support/errors.h"
#include "support/folder.h"

namespace rows_test {

using namespace capstan;
using namespace squad;
using test::Folder;

namespace {

constexpr const char* as_json = R"({"data": [{"title": "T", "paragraphs": [
  {"context": "The cat sat.", "qas": [
    {"id": "a", "question": "Who sat?", "answers": [{"text": "cat", "answer_start": 4}, {"text": "The cat", "answer_start": 0}]},
    {"id": "b", "question": "What did it do?", "answers": [{"text": "sat", "answer_start": 8}]}]},
  {"context": "Ein H\u00fcndchen bellt.", "qas": [
    {"id": "c", "question": "Wer?", "answers": [{"text": "H\u00fcndchen", "answer_start": 4}]}]}]}]})";

constexpr const char* to_rows = R"(
import json, sys
import pyarrow as pa, pyarrow.parquet as pq
rows = [{'id': q['id'], 'title': a['title'], 'context': p['context'], 'question': q['question'],
         'answers': {key: [x[key] for x in q['answers']] for key in ('text', 'answer_start')}}
        for a in json.load(open('squad.json'))['data'] for p in a['paragraphs'] for q in p['qas']]
pq.write_table(pa.Table.from_pylist(rows), 'squad.parquet', row_group_size=2)
open('squad.jsonl', 'w').write(''.join(json.dumps(row) + '\n' for row in rows))
)";

void check_same(const SquadFile& file, const SquadFile& wanted) {
  REQUIRE(file.questions.size() == wanted.questions.size());
  CHECK(file.contexts == wanted.contexts);
  CHECK(file.unknown_keys.empty());
  for (std::size_t i = 0; i < wanted.questions.size(); ++i) {
    const auto &one = file.questions[i], &other = wanted.questions[i];
    CHECK(one.id == other.id);
    CHECK(one.text == other.text);
    CHECK(one.answers == other.answers);
    CHECK(one.context == other.context);
  }
}

std::string fault(const std::string& row) {
  const Folder folder;
  const jsonl::MappedLines lines(folder.write("a.jsonl", row + "\n"));
  return test::error_of([&] { read_squad_rows(lines, data::Split::train); });
}

}  // namespace

TEST_CASE("SQuAD's Parquet and its JSON are the same questions") {
  const std::string python = CAPSTAN_SOURCE_DIR "/.deps/venv5/bin/python3";
  if (!is_file(python)) {
    WARN("skipped: no pyarrow here; tools/setup --parity installs it");
    return;
  }
  const Folder folder;
  const auto wanted = read_squad(folder.write("squad.json", as_json), data::Split::train);
  const auto script = folder.write("to_rows.py", to_rows);
  const auto ended = run_program(
      {.arguments = {"sh", "-c", "cd \"$0\" && exec \"$1\" \"$2\"", folder.path().string(), python, script}});
  INFO(ended.errors);
  REQUIRE(ended.succeeded());
  check_same(read_squad_rows(jsonl::MappedLines((folder / "squad.jsonl").string()), data::Split::train), wanted);
  const tables::TableFiles table{"squad", {(folder / "squad.parquet").string()}, {}, folder / "decoded", {python}};
  check_same(read_squad_rows(tables::DecodedRows(table), data::Split::train), wanted);
}

TEST_CASE("what is wrong in a row of SQuAD's table is said with its place") {
  CHECK_THAT(fault(R"({"id":"a","context":"C","question":"Q"})"), Contains("a.jsonl:1: answers is missing"));
  CHECK_THAT(fault(R"({"id":"a","context":"C","question":"Q","answers":{"text":["C"],"answer_start":[1,2]}})"),
             Contains("a.jsonl:1: answers.text has 1 item, and answer_start 2"));
  CHECK_THAT(fault(R"({"id":"a","context":"C","question":"Q","answers":{"text":["X"],"answer_start":[1]}})"),
             Contains("line 1.answers[0].text of question 'a' is 'X', which does not stand in the context"));
  CHECK_THAT(fault(R"({"id":1,"context":"C","question":"Q","answers":{"text":["C"]}})"),
             Contains("id is of type number"));
  CHECK_THAT(fault("[]"), Contains("the row is of type array, not an object"));
}

}  // namespace rows_test
