// What people ask of finished runs: report, sweep, top; and what the workshop's tables need of a run.
#include <arpa/inet.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <regex>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace report_test {

using namespace end_to_end;
namespace fs = std::filesystem;

namespace {

// What 127.0.0.1 answers to a GET.
std::string got(const std::string& port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const auto request = capstan::cat("GET ", path, " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    (void)::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    std::array<char, 4096> part{};
    for (ssize_t came = 0; (came = ::recv(socket, part.data(), part.size(), 0)) > 0;)
      answer.append(part.data(), static_cast<std::size_t>(came));
  }
  ::close(socket);
  return answer;
}

}  // namespace

TEST_CASE("a sweep runs a set, ends with its table, and repeats nothing") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const std::vector<std::string> sweep{"sweep",
                                       file,
                                       "-n",
                                       "1,2",
                                       "train.max_steps=2",
                                       "optimizer.lr=1e-3,1e-4",
                                       "--format",
                                       "csv",
                                       "run.name=s",
                                       "train.micro_batch=2"};
  const auto first = work.run(sweep);
  INFO(first.all());
  REQUIRE(first.code == 0);
  CHECK_THAT(first.out, Contains("sweep: s-2-lr=1e-4, 2 ranks") && Contains("\r\ns-1-lr=1e-3,1,"));
  for (const auto* name : {"s-1-lr=1e-3", "s-1-lr=1e-4", "s-2-lr=1e-3", "s-2-lr=1e-4"})
    CHECK(read_json(work.folder() / "runs" / name / "summary.json").at("steps") == 2);
  auto more = sweep;
  more[5] = "optimizer.lr=1e-3,5e-4";
  const auto second = work.run(more);
  REQUIRE(second.code == 0);
  CHECK(count(second.out, " is there: ") == 2);
  CHECK(count(second.out, " ranks\n") == 2);
  CHECK_FALSE(fs::exists(work.folder() / "runs/s-1-lr=1e-3-2"));
  const auto shown = work.run({"top", "runs/s-2-lr=1e-3"});
  CHECK_THAT(shown.out, Contains("run s-2-lr=1e-3: 2 ranks on 1 node\nstep 2/2 (100 %)"));
  const auto page = work.run({"report", "runs/s-1-lr=1e-3", "runs/s-2-lr=1e-3", "--format", "html", "-o", "r.html"});
  CHECK(page.code == 0);
  CHECK_THAT(capstan::read_file(work.folder() / "r.html"), Contains("<h3>Scaling</h3>"));
  // --table as its help says: once for each or with commas, and folders may follow it.
  const auto tables = work.run({"report", "--table", "fsdp-scaling,weak-layers", "--table", "custom-model",
                                "runs/s-1-lr=1e-3", "runs/s-2-lr=1e-3", "--base", "runs/s-2-lr=1e-3"});
  INFO(tables.all());
  CHECK(tables.code == 0);
  CHECK(count(tables.out, "Base, which the others are compared with: s-2-lr=1e-3") == 3);
  CHECK_THAT(work.run({"report", "--help"}).out, Contains("--table NAME  ") && !Contains("--table NAME ..."));
  const auto other = work.write("b.toml", small_config({{"hidden_size", "hidden_size = 24"}}));
  CHECK(work.run({"run", other, "run.name=wide", "train.max_steps=1"}).code == 0);
  const auto mixed = work.run({"report", "runs/s-1-lr=1e-3", "runs/wide", "--format", "csv"});
  CHECK_THAT(mixed.err, Contains("runs: the table mixes models: in wide model.hidden_size is 24, in s-1-lr=1e-3 12"));
  const auto refused = work.run({"report", "runs/none"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("there is no such folder"));
}

TEST_CASE("a run under way is watched in a browser of this machine until Ctrl-C") {
  const Workspace work;
  const auto step = [](int number) {
    return capstan::cat("{\"step\":", number, ",\"steps\":9,\"loss\":1,\"lr\":1,\"samples\":4,\"step_time_s\":1}\n");
  };
  work.write("runs/a/config.toml", "[train]\nmicro_batch = 4\n");
  work.write("runs/a/metrics.jsonl", step(0));
  CHECK(work.run({"report", "runs/a", "--port", "0"}).code == 2);  // only with --serve
  CHECK(work.run({"report", "runs/a", "--serve", "-o", "x.html"}).code == 2);
  CHECK(work.run({"report", "runs/none", "--serve", "--port", "0"}).code == 2);
  Program server(work.folder(), {"report", "runs/a", "--serve", "--port", "0"});
  REQUIRE(server.wait_for("Ctrl-C ends it\n"));
  std::smatch place;
  const auto out = server.out();
  REQUIRE(std::regex_search(out, place, std::regex("http://127\\.0\\.0\\.1:([0-9]+)(/[0-9a-f]{32})\n")));
  CHECK_THAT(got(place[1], place[2]),
             Contains("HTTP/1.1 200 OK") && Contains("a: step 1 of 9, ") && Contains("</html>"));
  work.write("runs/a/metrics.jsonl", step(0) + step(1));
  CHECK_THAT(got(place[1], place[2]), Contains("a: step 2 of 9, "));
  work.write("runs/a/metrics.jsonl", "{}\n");
  CHECK_THAT(got(place[1], place[2]), Contains("HTTP/1.1 500 ") && Contains("metrics.jsonl:1"));
  CHECK_THAT(got(place[1], "/"), Contains("HTTP/1.1 404 ") && !Contains("</html>"));
  server.signal(SIGINT);
  CHECK_FALSE(server.wait().timed_out);
}

TEST_CASE("a sweep that check refuses starts nothing") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const auto ran = work.run({"sweep", file, "-n", "1,2", "optimizer.schedule=linear,square"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, Contains("square"));
  CHECK_FALSE(fs::exists(work.folder() / "runs"));
}

TEST_CASE("answers after each evaluation, and samples that grow with the ranks") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const auto ran = work.run({"run", file, "-n", "2", "train.max_steps=4", "train.eval_every=2",
                             "train.generate_samples=3", "train.max_new_tokens=5", "train.generate_each_eval=true",
                             "data.samples_per_rank=16", "train.micro_batch=2"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  int scored = 0;
  const auto summary = read_json(work.folder() / "runs/small/summary.json");
  for (const auto& evaluation : summary.at("evaluations")) scored += evaluation.contains("f1") ? 1 : 0;
  CHECK(scored == 2);  // after steps 2 and 4, and not a third time at the end
  const auto shown = work.run({"check", file, "--ranks", "3", "data.samples_per_rank=16"});
  CHECK(shown.code == 0);
  const auto refused = work.run({"check", file, "--ranks", "3", "data.samples_per_rank=30"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err,
             Contains("data.samples_per_rank = 30 on 3 ranks takes 90 samples, the training data has 70") &&
                 Contains("set data.samples_per_rank = 23 or less"));
}

TEST_CASE("check says how many answers are cut off, and what a V100 cannot do") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  CHECK(count(work.run({"check", file, "model.seq_length=200", "data.max_length=200"}).out,
              "answers that are cut off") == 0);
  const auto cut = work.run({"check", file, "data.max_length=80"});
  INFO(cut.all());
  CHECK_THAT(cut.out, Contains("answers that are cut off: ") && Contains(" of the first 70 training samples lose"));
  CHECK_THAT(work.run({"data", file, "data.max_length=80"}).out, Contains("answers that are cut off: "));
  const auto refused = work.run({"check", file, "run.device=auto", "train.precision=bf16", "--gpu", "v100-32g"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err,
             Contains("--gpu v100-32g: train.precision = \"bf16\" needs compute capability 8.0, this GPU has 7.0"));
}

}  // namespace report_test
