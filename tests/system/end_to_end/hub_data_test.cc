// Datasets in the hub's cache, laid out as huggingface_hub does: the configurations for them train.
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cstdlib>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace hub_data_test {

using namespace end_to_end;
using capstan::cat;

namespace {

const std::string python_folder = CAPSTAN_SOURCE_DIR "/.deps/venv5";

constexpr const char* make_datasets = R"(
import os, sys
import pyarrow as pa, pyarrow.parquet as pq

def write(name, split, rows, file):
    root = os.path.join(sys.argv[1], 'datasets--' + name.replace('/', '--'))
    os.makedirs(os.path.join(root, 'refs'), exist_ok=True)
    open(os.path.join(root, 'refs/main'), 'w').write('abc')
    file = os.path.join(root, 'snapshots/abc', file)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), file)

def question(i):
    context = f'Ada keeps {i} goats and a cat.'
    return {'id': str(i), 'title': 't', 'context': context, 'question': 'How many goats?',
            'answers': {'text': [str(i)], 'answer_start': [context.index(str(i))]}}

def chat(i):
    user, answer = f'Say {i}.', f'{i}' if i % 5 else 'much more than fits ' * 10
    return {'prompt': user, 'prompt_id': f'p{i}', 'category': 'Coding' if i % 4 == 0 else 'Open QA',
            'messages': [{'role': 'user', 'content': user}, {'role': 'assistant', 'content': answer}]}

for split, count in (('train', 40), ('validation', 8)):
    write('rajpurkar/squad', split, [question(i) for i in range(count)], f'plain_text/{split}-00000-of-00001.parquet')
for split, count in (('train', 40), ('test', 8)):
    write('HuggingFaceH4/no_robots', split, [chat(i) for i in range(count)], f'data/{split}-00000-of-00001.parquet')
)";

}  // namespace

TEST_CASE("configs/ for datasets of the hub train on what huggingface_hub has downloaded") {
  if (!capstan::is_file(python_folder + "/bin/python3")) {
    WARN("skipped: no pyarrow here; tools/setup --parity installs it");
    return;
  }
  const Workspace work;
  const auto hub = (work.folder() / "hub").string();
  const auto script = work.write("make.py", make_datasets);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs
  REQUIRE(std::system(cat(python_folder, "/bin/python3 ", script, " ", hub).c_str()) == 0);
  const Variables variables{
      {"HF_HUB_CACHE", hub}, {"VIRTUAL_ENV", python_folder}, {"CAPSTAN_CACHE", (work.folder() / "cache").string()}};
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words{"run",
                                   (source_dir() / "configs" / (name + ".toml")).string(),
                                   cat("run.dir=", (work.folder() / "runs").string()),
                                   "run.device=cpu",
                                   "model.hidden_size=12",
                                   "model.num_layers=1",
                                   "model.num_heads=2",
                                   "train.max_steps=3",
                                   "train.global_batch=4",
                                   "train.micro_batch=2",
                                   "train.eval_every=3"};
    words.insert(words.end(), more.begin(), more.end());
    return work.run(words, variables);
  };
  const auto squad = train("hub_squad", {"train.generate_samples=2", "train.max_new_tokens=4"});
  INFO(squad.all());
  REQUIRE(squad.code == 0);
  CHECK(read_json(work.folder() / "runs/hub-squad/summary.json").at("evaluations").back().at("samples") == 2);
  const auto chat = train("hub_chat", {"data.max_length=120"});
  INFO(chat.all());
  REQUIRE(chat.code == 0);
  // Every fourth is left out by its category, and of the others every fifth by its length.
  CHECK_THAT(chat.err, Contains("data.keep keeps 30 of 40 rows") &&
                           Contains("6 of 30 rows have more than 120 tokens") &&
                           Contains("data.keep keeps 6 of 8 rows") && Contains("1 of 6 rows has more than 120 tokens"));
}

}  // namespace hub_data_test
