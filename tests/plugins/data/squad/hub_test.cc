// SQuAD out of the hub's cache, and the same questions out of its JSON.
#include "plugins/data/squad/squad.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/subprocess.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cstdlib>

#include "support/folder.h"
#include "support/options.h"

namespace hub_test {

using namespace capstan;
using squad::SquadData;
using squad::SquadOptions;
using test::Folder;
using Values = testing::OptionValues;

namespace {

const std::string python = CAPSTAN_SOURCE_DIR "/.deps/venv5/bin/python3";

// The tree's questions as the hub's repository of squad has them.
constexpr const char* to_hub = R"(
import json, os, sys
import pyarrow as pa, pyarrow.parquet as pq
source, root = sys.argv[1], os.path.join(sys.argv[2], 'datasets--rajpurkar--squad')
os.makedirs(root + '/refs'); os.makedirs(root + '/snapshots/abc/plain_text')
open(root + '/refs/main', 'w').write('abc')
for part, split in (('train', 'train'), ('eval', 'validation')):
    data = json.load(open(f'{source}/mini_squad_{part}.json'))['data']
    rows = [{'id': q['id'], 'title': a.get('title', ''), 'context': p['context'], 'question': q['question'],
             'answers': {'text': [x['text'] for x in q['answers']],
                         'answer_start': [x.get('answer_start', 0) for x in q['answers']]}}
            for a in data for p in a['paragraphs'] for q in p['qas']]
    pq.write_table(pa.Table.from_pylist(rows), f'{root}/snapshots/abc/plain_text/{split}-00000-of-00001.parquet')
open(root + '/snapshots/abc/README.md', 'w').write('''---
configs:
- config_name: plain_text
  data_files:
  - split: train
    path: plain_text/train-*
  - split: validation
    path: plain_text/validation-*
---
''')
)";

SquadData data_of(const Values& values) { return SquadData(testing::options_of<SquadOptions>("data", values)); }

std::string faults(const SquadData& data) {
  Diagnostics diagnostics;
  data.check(diagnostics);
  std::string all;
  for (const auto& one : diagnostics.list()) all += one.text() + "\n";
  return all;
}

std::shared_ptr<data::DataSource> opened(const SquadData& data, data::Split split) {
  return data.open({split, std::make_shared<tokenizer::ByteTokenizer>(), 200, 258});
}

}  // namespace

TEST_CASE("SQuAD from the hub's cache is SQuAD from its JSON, sample for sample") {
  if (!is_file(python)) {
    WARN("skipped: no pyarrow here; tools/setup --parity installs it");
    return;
  }
  const Folder folder;
  const std::string source = CAPSTAN_SOURCE_DIR "/configs/data";
  const auto ended = run_program({.arguments = {python, "-c", to_hub, source, (folder / "hub").string()}});
  INFO(ended.errors);
  REQUIRE(ended.succeeded());
  ::setenv("HF_HUB_CACHE", (folder / "hub").c_str(), 1);
  const auto of_hub = [&](const std::string& name, const std::string& train_split) {
    return data_of({{"dataset", name},
                    {"config", std::string("plain_text")},
                    {"train_split", train_split},
                    {"eval_split", std::string("validation")},
                    {"python", python},
                    {"derived", (folder / "derived").string()}});
  };
  const auto hub = of_hub("rajpurkar/squad", "train");
  const auto json = data_of({{"train", source + "/mini_squad_train.json"}, {"eval", source + "/mini_squad_eval.json"}});
  CHECK(faults(hub).empty());
  CHECK(hub.evaluates());
  for (const auto split : {data::Split::train, data::Split::eval}) {
    const auto one = opened(hub, split), other = opened(json, split);
    REQUIRE(one->size() == other->size());
    for (std::int64_t i = 0; i < one->size(); ++i) {
      const auto a = one->get(i), b = other->get(i);
      INFO(b.id);
      CHECK(a.id == b.id);
      CHECK(a.tokens == b.tokens);
      CHECK(a.is_target == b.is_target);
      CHECK(a.prompt_length == b.prompt_length);
      CHECK(a.references == b.references);
      CHECK(one->question(i, 90).tokens == other->question(i, 90).tokens);
    }
  }
  CHECK_THAT(faults(of_hub("rajpurkar/squad", "test")), Contains("there are no files of the split 'test'"));
  CHECK_THAT(faults(of_hub("rajpurkar/squad_v2", "train")),
             Contains("hf download --repo-type dataset rajpurkar/squad_v2"));
  ::unsetenv("HF_HUB_CACHE");
}

TEST_CASE("a dataset and a file at once are refused, and so is a split of no dataset") {
  const std::string file = CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_train.json";
  CHECK_THAT(faults(data_of({{"train", file}, {"dataset", std::string("squad")}})),
             Contains("data.dataset is set, and a file too"));
  CHECK_THAT(faults(data_of({{"train", file}, {"eval_split", std::string("validation")}})),
             Contains("data.eval_split is set, and data.dataset is not"));
}

}  // namespace hub_test
