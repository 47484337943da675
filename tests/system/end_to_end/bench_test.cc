// tools/bench/{sharding,models,checkpoint,rows}.py drive the real program; on CPU ranks and tiny models here.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "program.h"
#include "results.h"

namespace bench_test {

using namespace end_to_end;
using capstan::cat;

namespace {

struct Ended {
  int code = 0;
  std::string text;  // standard output and error
};

Ended run_python(const Workspace& work, const std::string& script, const std::string& arguments) {
  const auto command =
      cat("cd '", work.folder().string(), "' && OMP_NUM_THREADS=1 python3 '",
          (source_dir() / "tools" / "bench" / script).string(), "' --capstan '",
          (binary_dir() / "bin" / "capstan").string(), "' --device cpu --precision fp32 ", arguments, " 2>&1");
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  std::array<char, 4096> block{};
  while (const auto read = std::fread(block.data(), 1, block.size(), pipe)) ended.text.append(block.data(), read);
  ended.code = WEXITSTATUS(::pclose(pipe));
  return ended;
}

// A script of tools/bench on the CPU.
Ended run_script(const Workspace& work, const std::string& script, const std::string& arguments) {
  return run_python(work, script, "--steps 3 " + arguments);
}

// The sharding benchmark with a model of a few thousand parameters.
Ended bench(const Workspace& work, const std::string& arguments) {
  return run_script(
      work, "sharding.py",
      "--vocab 300 --hidden 12 --layers 2 --heads 3 --seq 9 --micro-batch 2 --accumulation 3 --warmup 1 " + arguments);
}

// The same of saves.
Ended bench_saves(const Workspace& work, const std::string& arguments) {
  return run_script(work, "checkpoint.py",
                    "--layers 2 --seq 9 --save-after 4 --set model.hidden_size=16 --set model.num_heads=4"
                    " --set model.num_kv_heads=2 --set model.ff_dim=24 --set model.vocab_size=300 " +
                        arguments);
}

std::vector<Json> lines(const std::string& text) {
  std::vector<Json> out;
  for (const auto& line : capstan::split(text, '\n')) {
    if (!line.empty()) out.push_back(Json::parse(line));
  }
  return out;
}

}  // namespace

TEST_CASE("the sharding benchmark measures each case with the real program and keeps a record") {
  const Workspace work;
  const auto ended = bench(work, "--gpus 2 --record kept.json none fsdp-full_shard:optimizer.lr=0.01");
  INFO(ended.text);
  REQUIRE(ended.code == 0);
  const auto results = lines(ended.text);
  REQUIRE(results.size() == 2);
  CHECK(results[0].at("case") == "none");
  CHECK(results[1].at("case") == "fsdp-full_shard:optimizer.lr=0.01");
  for (const auto& result : results) {
    CHECK(result.at("gpus") == 2);
    const auto step_s = result.at("step_s").get<double>();
    CHECK(step_s > 0);
    // 2 samples x 9 positions x 3 micro-steps a rank; step_s is rounded to 10 us.
    CHECK(result.at("tokens_per_s_per_gpu").get<double>() * step_s == Approx(54).epsilon(0.02));
    CHECK(result.at("host_gib") > 0.01);
    CHECK(result.at("peak_gib").is_null());  // no GPU
    // wte 300 x 12, wpe 9 x 12, two blocks of 12 h^2 + 13 h, ln_f.
    CHECK(result.at("parameters") == 300 * 12 + 9 * 12 + 2 * (12 * 144 + 13 * 12) + 24);
  }
  // fp32, nothing cut: 4 bytes of parameters, 4 of gradients, 8 of moments each. With options in play nothing is said.
  CHECK(results[0].at("states_gib").get<double>() * 1073741824.0 == Approx(16 * 7500).epsilon(1e-3));
  CHECK_FALSE(results[1].contains("states_gib"));
  // An option after the colon reaches the run: the learning rate tears the loss away from the other case's.
  CHECK(results[0].at("last_loss") != results[1].at("last_loss"));

  const auto record = read_json(work.folder() / "kept.json");
  CHECK(record.at("results") == Json(results));
  CHECK(record.at("model").at("ff") == 48);
  CHECK(record.at("training").at("accumulation") == 3);
  CHECK(record.at("hardware").at("cores") > 0);
  CHECK_THAT(record.at("capstan").get<std::string>(), Contains("capstan "));
  CHECK(record.at("date").get<std::string>().size() == 10);
}

TEST_CASE("a case of the sharding benchmark that fails says why and does not end the others") {
  const Workspace work;
  const auto ended = bench(work, "none:train.max_stepz=1 none deepspeed-3");
  CHECK(ended.code == 1);
  const auto results = lines(ended.text);
  REQUIRE(results.size() == 3);
  CHECK_THAT(results[0].at("error").get<std::string>(), Contains("exit code 2"));
  CHECK_THAT(results[0].at("error").get<std::string>(), Contains("max_steps"));
  CHECK(results[1].at("step_s") > 0);
  CHECK(results[2].at("error") == "--deepspeed names no script");
}

TEST_CASE("the sharding benchmark refuses cases that it does not have") {
  const Workspace work;
  const auto ended = bench(work, "zero-4");
  CHECK(ended.code == 2);
  CHECK_THAT(ended.text, Contains("there is no case zero-4; --list prints them"));
}

TEST_CASE("the models benchmark measures models, strategies and a peer's script, and keeps a record") {
  const Workspace work;
  const std::string tiny =
      ":model.hidden_size=16,model.num_layers=2,model.num_heads=4,model.vocab_size=300,data.max_length=9";
  work.write("peer.py",
             "import json, sys\n"
             "print('RESULT ' + json.dumps(dict(step_s=1, tok_s_gpu=len(sys.argv), peak_gib=2, params=3)))\n");
  const auto ended =
      run_script(work, "models.py",
                 cat("--warmup 1 --record kept.json --peer peer.py 'bloom-560m", tiny, "' 'llama-8b-lora+tp2+sp@2",
                     tiny, ",model.num_kv_heads=2,model.ff_dim=16' peer:some-case:mb=1 'mixtral-8l+ep2@2", tiny,
                     ",model.num_kv_heads=2,model.ff_dim=16,model.num_expert=1'"));
  INFO(ended.text);
  CHECK(ended.code == 1);
  const auto results = lines(ended.text);
  REQUIRE(results.size() == 4);
  for (int i = 0; i < 2; ++i) {
    CHECK(results[i].at("gpus") == i + 1);
    CHECK(results[i].at("tokens_per_s_per_gpu").get<double>() > 0);
    CHECK(results[i].at("parameters").get<double>() > 3600);
  }
  CHECK(results[2].at("tokens_per_s_per_gpu") == 5);  // the case, mb, steps and warm
  CHECK_THAT(results[3].at("error").get<std::string>(), Contains("did you mean 'num_experts'?"));
  CHECK(read_json(work.folder() / "kept.json").at("results").size() == 4);
}

TEST_CASE("the models benchmark refuses models and words that it does not have") {
  const Workspace work;
  for (const auto* name : {"bloom-561m", "llama-8b+dp2", "llama-8b+tp"})
    CHECK_THAT(run_script(work, "models.py", name).text, Contains(cat("there is no case ", name)));
  CHECK_THAT(run_script(work, "models.py", "peer:x").text, Contains("--peer names no script"));
}

TEST_CASE("the checkpoint benchmark saves, kills the run, and finds what it resumes equal") {
  const Workspace work;
  const auto ended =
      bench_saves(work, "--gpus 2 --record kept.json fsdp-full_shard zero-1:checkpoint.asynchronous=false");
  INFO(ended.text);
  REQUIRE(ended.code == 0);
  const auto results = lines(ended.text);
  REQUIRE(results.size() == 2);
  for (const auto& result : results) {
    CHECK(result.at("bit_equal") == true);
    CHECK(result.at("compared_steps") == 3);
    // Two embeddings of 300 x 16; in a block q and o of 16 x 16, k and v of 8 x 16, three of 24 x 16, two norms; one
    // more.
    CHECK(result.at("parameters") == 2 * 300 * 16 + 2 * (2 * 256 + 2 * 128 + 3 * 384 + 32) + 16);
    for (const char* number : {"stall_s", "write_s", "step_s", "start_s", "resume_s"}) {
      INFO(number);
      CHECK(result.at(number) > 0);
    }
  }
  CHECK(read_json(work.folder() / "kept.json").at("results") == Json(results));
}

TEST_CASE("the checkpoint benchmark says what failed, in either run") {
  const Workspace work;
  const auto ended = bench_saves(work, "fsdp-full_shard:train.max_stepz=1");
  CHECK(ended.code == 1);
  CHECK_THAT(lines(ended.text).at(0).at("error").get<std::string>(), Contains("exit code 2") && Contains("max_steps"));
  const auto unknown = bench_saves(work, "zero-4");
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.text, Contains("there is no case zero-4; --list prints them"));
  const auto early = bench_saves(work, "--save-after 1 none");
  CHECK_THAT(early.text, Contains("--save-after at least 2"));
}

TEST_CASE("the benchmark of real rows tells a run's parts apart") {
  const Workspace work;
  const auto data = (source_dir() / "configs/data/mini_squad_train.json").string();
  const std::string tiny =
      "model.hidden_size=16,model.num_layers=1,model.num_heads=2,model.vocab_size=300,data.max_length=200,"
      "model.seq_length=200";
  const auto ran = run_python(
      work, "rows.py", cat("--parts 0,1,3 --record record.json '", data, "' '2x2@2:", tiny, "' '4x1:", tiny, "'"));
  INFO(ran.text);
  REQUIRE(ran.code == 0);
  const auto results = lines(ran.text);
  REQUIRE(results.size() == 2);
  for (const auto& result : results) {
    CHECK(result["samples_per_s"].size() == 2);
    CHECK(result["samples_per_s"]["1-3"].get<double>() > 0);
    CHECK(result["peak_gib"].get<double>() > 0);
  }
  CHECK(results[0]["gpus"] == 2);
  CHECK(Json::parse(capstan::read_file(work.folder() / "record.json"))["results"].size() == 2);
  const auto faulty = run_python(work, "rows.py", cat("'", data, "' 4"));
  CHECK(faulty.code == 2);
  CHECK_THAT(faulty.text, Contains("there is no case 4: MICRO_BATCHxACCUMULATION"));
}

}  // namespace bench_test
