// Who may come into the ranks' store, and who may not.
#include "peers/store_server.h"

#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan_catch.h>

#include <system_error>
#include <thread>

#include "peers/network.h"
#include "peers/sockets.h"
#include "peers/store.h"
#include "support/errors.h"
#include "support/folder.h"

namespace store_server_test {

using namespace capstan;
using namespace capstan::peers;
using namespace std::chrono_literals;

namespace {

// The log of what happens while it lives.
class Log {
 public:
  Log() { log::configure(file(), log::Level::error, 0); }
  ~Log() { log::configure("", log::Level::warning, 0); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string file() const { return folder_ / "log"; }
  std::string text() const { return read_file(file()); }
  // Waits for the server's thread.
  bool says(const std::string& part) const {
    for (int i = 0; i < 200; ++i) {
      if (text().find(part) != std::string::npos) return true;
      std::this_thread::sleep_for(20ms);
    }
    return false;
  }

 private:
  test::Folder folder_;
};

}  // namespace

TEST_CASE("a store serves only those who know the secret of its run") {
  const Log log;
  const auto store = serve_store("127.0.0.1", 0, "x", "the secret of this run");
  store->set("k", "v");
  CHECK(connect_store("127.0.0.1", store->port(), "x", 5s, "the secret of this run")->get("k") == "v");
  CHECK_THAT(test::error_of([&] { connect_store("127.0.0.1", store->port(), "x", 300ms, "another"); }),
             Contains("the ranks' store does not answer"));
  CHECK(log.says("a connection from 127.0.0.1:"));
  CHECK(log.says("to the ranks' store was refused: it does not know this run's secret"));
  CHECK(store->get("k") == "v");
}

TEST_CASE("a flood of strangers, of garbage and of silence changes nothing and is one line of the log") {
  const Log log;
  const auto store = serve_store("127.0.0.1", 0, "x", "the secret of this run");
  std::vector<Descriptor> silent;
  for (int i = 0; i < 400; ++i) {
    silent.push_back(connect_to("127.0.0.1", store->port(), 5s));
    if (i % 2 == 0) continue;
    std::string garbage(5000, static_cast<char>(i));
    send_some(silent.back(), garbage);
  }
  store->set("k", "v");
  CHECK(connect_store("127.0.0.1", store->port(), "x", 5s, "the secret of this run")->get("k") == "v");
  CHECK(log.says("was refused"));
  const auto text = log.text();
  CHECK(text.find("was refused") == text.rfind("was refused"));
}

TEST_CASE("the store of a run on one host cannot be reached from another") {
  const auto store = serve_store("127.0.0.1", 0, "x");
  for (const auto& address : own_addresses()) {
    if (is_loopback(address)) continue;
    INFO(address);
    CHECK_THROWS_AS(connect_to(address, store->port(), 1s), std::system_error);
  }
}

}  // namespace store_server_test
