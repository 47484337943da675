#include "plugins/commands/checkpoint/answers.h"

#include <ATen/ATen.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <sstream>

#include "checkpoint/checkpoint.h"
#include "support/folder.h"

using namespace capstan;

namespace {

namespace fs = std::filesystem;

// Checkpoints of a run: two steps of two tensors, with the rules for the best that their manifests have, if any.
void save_run(const fs::path& run, const std::vector<checkpoint::BestRule>& rules = {}) {
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    checkpoint::WriterOptions options;
    options.folder = run / "checkpoints";
    checkpoint::Writer writer(options, communicator.group("checkpoints", {0}, at::kCPU));
    for (const std::int64_t step : {100, 200}) {
      checkpoint::Meta meta;
      meta.step = step;
      meta.mesh = "dp 1";
      meta.config = "[train]\nseed = 1\n";
      meta.metrics = {{"eval_loss", 2.5}, {"eval_f1", static_cast<double>(step)}};
      meta.sections = {{"cursor", R"({"epoch":1})"}};
      if (!rules.empty()) meta.sections["best"] = rules.at(step == 100 ? 0 : 1).text();
      const layout::Box whole{{0, 0}, {2, 3}};
      const auto value = at::ones({2, 3});
      writer.start(meta,
                   {{"model/wte.weight", {2, 3}, whole, value}, {"optimizer/m/wte.weight", {2, 3}, whole, value}});
    }
  });
}

struct Answer {
  int code;
  std::string text;
  std::string progress;
};

// As if typed: capstan checkpoint …
Answer answers(const std::vector<std::string>& words) {
  command::Arguments arguments;
  checkpoints::Arguments parsed;
  checkpoints::declare(arguments, parsed);
  REQUIRE_FALSE(arguments.parse(words));
  parsed.action = arguments.chosen();
  std::ostringstream out;
  std::ostringstream progress;
  const int code = checkpoints::answer(parsed, out, progress);
  return {code, out.str(), progress.str()};
}

std::vector<std::string> first_words(const std::string& text) {
  std::vector<std::string> out;
  for (const auto& line : split(text, '\n')) out.push_back(line.substr(0, line.find(' ')));
  return out;
}

}  // namespace

TEST_CASE("checkpoint ls marks the best by the rule of the newest one that can be read") {
  const test::Folder scratch;
  const auto run = scratch / "run";
  save_run(run, {{"eval_loss"}, {"eval_loss"}});
  const auto rows = [&] { return split(answers({"ls", run.string()}).text, '\n'); };
  CHECK_THAT(rows()[1], Contains("step-00000200") && !Contains("best"));
  CHECK_THAT(rows()[2], Contains("step-00000100") && Contains("eval_loss 2.5  best  1 rank"));
  fs::resize_file(run / "checkpoints/step-00000200/weights-00000-of-00001.safetensors", 10);
  CHECK_THAT(rows()[1], Contains("damaged"));
  CHECK_THAT(rows()[2], Contains("best"));
  const test::Folder other;
  save_run(other / "run");
  CHECK_THAT(answers({"ls", (other / "run").string()}).text, !Contains("best"));
  // A run that was resumed with another metric: the old one counts until an evaluation has given the new one.
  const auto best_of = [](const std::vector<checkpoint::BestRule>& rules) {
    const test::Folder folder;
    save_run(folder / "run", rules);
    for (const auto& row : split(answers({"ls", (folder / "run").string()}).text, '\n')) {
      if (row.find(" best ") != std::string::npos) return row.substr(0, row.find(' '));
    }
    return std::string();
  };
  CHECK(best_of({{"eval_loss"}, {"eval_f1", false}}) == "step-00000200");
  CHECK(best_of({{"eval_f1", false}, {"eval_accuracy", false}}) == "step-00000200");
  CHECK(best_of({{"eval_f1", false}, {"eval_loss"}}) == "step-00000100");
}

TEST_CASE("checkpoint ls lists what a run has, and what is wrong with it") {
  const test::Folder scratch;
  const auto run = scratch / "run";
  save_run(run);
  const auto whole = answers({"ls", run.string()});
  CHECK(whole.code == 0);
  CHECK(first_words(whole.text) == std::vector<std::string>{"checkpoint", "step-00000200", "step-00000100", ""});
  CHECK_THAT(whole.text, Contains("eval_loss 2.5") && Contains("1 rank (dp 1)") && Contains("whole\n"));
  CHECK(answers({"ls", (run / "checkpoints").string()}).text == whole.text);
  CHECK(first_words(answers({"ls", (run / "checkpoints/latest").string()}).text)[1] == "step-00000200");
  CHECK(first_words(answers({"ls", (run / "checkpoints/step-00000100").string()}).text)[1] == "step-00000100");

  fs::remove_all(run / "checkpoints/step-00000200");
  fs::resize_file(run / "checkpoints/step-00000100/weights-00000-of-00001.safetensors", 10);
  fs::create_directories(run / "checkpoints/step-00000300.tmp-7.0");
  const auto damaged = answers({"ls", run.string()});
  CHECK_THAT(damaged.text, Contains("damaged: it has 10 bytes, the manifest says "));
  CHECK_THAT(damaged.text, Contains("Being written, or left by a crash (the next save removes these): "
                                    "step-00000300.tmp-7.0\n'latest' says step-00000200, which is not there\n"));
}

TEST_CASE("checkpoint verify names what is damaged and exits with 1") {
  const test::Folder scratch;
  save_run(scratch / "run");
  const auto newest = scratch / "run/checkpoints/step-00000200";
  const auto older = scratch / "run/checkpoints/step-00000100";
  const auto intact = answers({"verify", (scratch / "run").string()});
  CHECK(intact.code == static_cast<int>(ExitCode::success));
  CHECK(intact.text == newest.string() + ": intact\n" + older.string() + ": intact\n");
  auto content = read_file(newest / "weights-00000-of-00001.safetensors");
  content.back() = static_cast<char>(content.back() ^ 4);
  write_file(newest / "weights-00000-of-00001.safetensors", content);
  const auto damaged = answers({"verify", (scratch / "run").string()});
  CHECK(damaged.code == static_cast<int>(ExitCode::failure));
  CHECK(damaged.text == newest.string() + ": 1 fault\n  " + newest.string() +
                            "/weights-00000-of-00001.safetensors: the data of 'optimizer/m/wte.weight[0:2, 0:3]' is "
                            "damaged: it does not have the hash that the manifest says\n    fix: copy the file again, "
                            "or take another checkpoint\n" +
                            older.string() + ": intact\n");
  CHECK(answers({"verify", older.string()}).code == static_cast<int>(ExitCode::success));
}

TEST_CASE("checkpoint show says what a checkpoint says of itself") {
  const test::Folder scratch;
  save_run(scratch / "run");
  const auto run = (scratch / "run").string();
  const auto all = answers({"show", run}).text;
  CHECK_THAT(all, Contains("step-00000200") && Contains("capstan " + version()) && Contains("eval_loss 2.5") &&
                      Contains("optimizer/m  1        6") && Contains("cursor {\n  \"epoch\": 1\n}\n"));
  CHECK(answers({"show", run, "--section", "cursor"}).text == "{\n  \"epoch\": 1\n}\n");
  CHECK(answers({"show", run, "--config"}).text == "[train]\nseed = 1\n");
  CHECK(answers({"show", run, "--tensors"}).text ==
        "tensor                  shape   dtype\nmodel/wte.weight        [2, 3]  F32\noptimizer/m/wte.weight  [2, 3]  "
        "F32\n");
  CHECK_THROWS_WITH(answers({"show", run, "--section", "scaler"}), Contains("it has no section 'scaler'"));
}

TEST_CASE("a path that leads to no checkpoint is said so") {
  const test::Folder scratch;
  CHECK_THROWS_WITH(answers({"ls", scratch.path().string()}),
                    Contains(scratch.path().string() +
                             ": there is no checkpoint in it\n    fix: name a run's folder, its checkpoints, or one"));
  CHECK_THROWS_WITH(answers({"ls", (scratch / "gone").string()}), Contains(": no such folder\n"));
}
