#include "plugins/monitors/wandb/sender.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "support/folder.h"

namespace sender_test {

using namespace wandb;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

namespace {

// A program that is started as Python is, with -c, the script, the log, the folder for the client's files, the process
// and the interval. It waits for the end of the "log", the line "end".
const std::string until_end = "until grep -q end \"$3\"; do sleep 0.02; done\n";
const std::string sent = "printf '{\"sent\": [\"%s\"]}\\n' \"$3\"\n";

class Sending {
 public:
  explicit Sending(const std::string& script, bool has_program = true) {
    log_ = folder_.write("run-a1b2c3d4.wandb", "begin\n");
    const auto program = folder_.write("python", "#!/bin/sh\n" + script);
    if (has_program) ::chmod(program.c_str(), 0700);
    sender.emplace(Sender::Start{program, log_, 10});
  }
  void end_log() const { folder_.write("run-a1b2c3d4.wandb", "begin\nend\n"); }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  test::Folder folder_;
  std::string log_;

 public:
  std::optional<Sender> sender;  // goes before the folder
};

// What is new, as soon as something is.
Sender::News first_news(Sender& sender) {
  for (int look = 0; look < 1000; ++look) {
    auto news = sender.news();
    if (!news.url.empty() || !news.warnings.empty()) return news;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

TEST_CASE("a run is sent while it is written, and its end is waited for") {
  Sending sending(
      "test \"$1\" = -c && test -d \"$4\" && test \"$6\" = 10 || exit 1\ntouch \"$4/of-the-client\"\n"
      "echo '{\"url\": \"https://wandb.test/a\"}'\n" +
      until_end + sent);
  const auto news = first_news(*sending.sender);
  CHECK(news.url == "https://wandb.test/a");
  CHECK(news.warnings.empty());
  CHECK(sending.sender->news().url.empty());  // told once
  sending.end_log();
  CHECK(sending.sender->finish(seconds(60)));
  CHECK(sending.sender->news().warnings.empty());
  CHECK_FALSE(std::filesystem::exists(sending / "sending"));  // the client's own files have gone
  CHECK(std::filesystem::exists(sending / "run-a1b2c3d4.wandb.synced"));
}

TEST_CASE("a server that is slow is waited for no longer than was said, and by nobody before") {
  Sending sending("echo '{\"url\": \"https://wandb.test/a\"}'\necho 'retrying' >&2\nsleep 1000\n");
  CHECK(first_news(*sending.sender).url == "https://wandb.test/a");
  sending.end_log();
  bool is_sent = true;
  const auto waited = seconds_of([&] { is_sent = sending.sender->finish(std::chrono::milliseconds(300)); });
  CHECK_FALSE(is_sent);
  CHECK(waited >= 0.3);
  CHECK(waited < 30);  // the program would have slept for 1000 s
  CHECK(sending.sender->news().warnings ==
        std::vector<std::string>{"W&B has not got all of this run 0.3 s after its end; it said: retrying"});
  CHECK_FALSE(std::filesystem::exists(sending / "run-a1b2c3d4.wandb.synced"));
}

TEST_CASE("a server that is not reached is told once, and all is well when it is") {
  Sending sending("echo '{\"trouble\": \"CommError: no route\"}'\necho '{\"trouble\": \"CommError: still none\"}'\n" +
                  until_end + "echo '{\"url\": \"u\"}'\n" + sent);
  const auto news = first_news(*sending.sender);
  CHECK(news.warnings == std::vector<std::string>{
                             "W&B is not reached, which is tried again while the run continues: CommError: no route"});
  sending.end_log();
  CHECK(sending.sender->finish(seconds(60)));
  CHECK(sending.sender->news().warnings.empty());
}

TEST_CASE("a process that dies is told with its last words, and is not waited for") {
  const auto [script, words] =
      GENERATE(std::pair("echo 'CommError: no such project' >&2\nexit 1\n",
                         "the process that sends it ended with exit status 1; it said: CommError: no such project"),
               std::pair("echo '{\"failed\": \"CommError: gone\"}'\necho 'of the client' >&2\nexit 1\n",
                         "this run: CommError: gone"),
               std::pair("kill -9 $$\n", "the process that sends it was ended by signal 9 (SIGKILL)"),
               std::pair("exit 0\n", "the process that sends it ended with exit status 0"));
  Sending sending(script);
  const auto news = first_news(*sending.sender);
  REQUIRE(news.warnings.size() == 1);
  CHECK_THAT(news.warnings.front(), Contains("W&B gets nothing more of this run: ") && Contains(words));
  CHECK_FALSE(sending.sender->finish(seconds(1000)));
  CHECK(sending.sender->news().warnings.empty());
}

TEST_CASE("a client that has given up a part has not sent all, which is told at once, whatever it says after") {
  const auto [script, words] = GENERATE(
      std::pair("printf 'wandb: WARNING Fatal error while ' >&2\nsleep 0.2\necho 'uploading data.' >&2\n"
                "head -c 50000 /dev/zero | tr '\\0' 'a' >&2\n",
                "the server refused some of it"),
      std::pair("echo '{\"lost\": \"it has later steps\"}'\necho '{\"lost\": \"more\"}'\n", "it has later steps"));
  Sending sending(script + until_end + sent);
  CHECK(first_news(*sending.sender).warnings ==
        std::vector<std::string>{std::string("W&B has not got all of this run: ") + words});
  sending.end_log();
  CHECK_FALSE(sending.sender->finish(seconds(60)));
  CHECK(sending.sender->news().warnings.empty());
  CHECK_FALSE(std::filesystem::exists(sending / "run-a1b2c3d4.wandb.synced"));
}

TEST_CASE("what a killed start of the run has left of the client goes, and another run's does not") {
  const test::Folder folder;
  for (const auto* name : {"offline-run-1-a", "offline-run-2-a", "offline-run-1-b"})
    std::filesystem::create_directories(folder / name / "sending");
  for (const auto* name : {"offline-run-1-a", "offline-run-2-a"})
    capstan::write_file(folder / name / "run-a.wandb", "");
  capstan::write_file(folder / "offline-run-1-b" / "run-b.wandb", "");
  Sender sender({"/nowhere/python3", folder / "offline-run-2-a" / "run-a.wandb", 10});
  CHECK_FALSE(sender.finish(seconds(60)));
  CHECK_FALSE(std::filesystem::exists(folder / "offline-run-1-a" / "sending"));
  CHECK(std::filesystem::exists(folder / "offline-run-1-b" / "sending"));
}

TEST_CASE("a program that cannot be started is told") {
  Sending sending("", false);
  CHECK_THAT(first_news(*sending.sender).warnings.at(0), Contains("cannot start ") && Contains("Permission denied"));
  CHECK_FALSE(sending.sender->finish(seconds(60)));
}

TEST_CASE("a run that goes away takes the process with it") {
  std::optional<Sending> sending(std::in_place, "echo '{\"url\": \"u\"}'\nsleep 1000\n");
  CHECK(first_news(*sending->sender).url == "u");
  CHECK(seconds_of([&] { sending.reset(); }) < 30);
}

}  // namespace sender_test
