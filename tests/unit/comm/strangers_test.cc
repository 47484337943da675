// Who may come into the ranks' store, and who may not.
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/stat.h>

#include <thread>

#include "comm/network.h"
#include "comm/proof.h"
#include "comm/secret.h"
#include "comm/sockets.h"
#include "comm/store.h"
#include "comm/wire.h"
#include "support/errors.h"
#include "support/folder.h"
#include "support/ordinary_user.h"

using namespace capstan;
using namespace capstan::comm;
using namespace capstan::store;
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

TEST_CASE("a proof is good for one secret, one end and one pair of numbers") {
  const Nonces nonces{"server's number", "client's number"};
  const auto good = proof("secret", "client", nonces);
  CHECK(is_proof(good, "secret", "client", nonces));
  CHECK_FALSE(is_proof(good, "Secret", "client", nonces));
  CHECK_FALSE(is_proof(good, "secret", "server", nonces));
  CHECK_FALSE(is_proof(good, "secret", "client", {nonces.server, "another"}));
  CHECK_FALSE(is_proof(good.substr(1), "secret", "client", nonces));
  CHECK(new_secret().size() == 32);
  CHECK(new_secret() != new_secret());
}

TEST_CASE("messages of the store come back as they were, and what is none is refused") {
  const Texts texts{"set", "", std::string("a\0b", 3)};
  const auto bytes = packed(texts);
  CHECK(message_length(bytes) == bytes.size() - 4);
  CHECK(unpacked(std::string_view(bytes).substr(4)) == texts);
  CHECK_FALSE(unpacked("abc"));
  CHECK_FALSE(unpacked(std::string_view("\xff\xff\xff\xff", 4)));
}

TEST_CASE("a store serves only those who know the secret of its run") {
  const Log log;
  const auto store = Store::serve("127.0.0.1", 0, "x", "the secret of this run");
  store->set("k", "v");
  CHECK(Store::connect("127.0.0.1", store->port(), "x", 5s, {"the secret of this run"})->get("k") == "v");
  CHECK_THAT(test::error_of([&] { Store::connect("127.0.0.1", store->port(), "x", 300ms, {"another"}); }),
             Contains("the ranks' store does not answer"));
  CHECK(log.says("a connection from 127.0.0.1:"));
  CHECK(log.says("to the ranks' store was refused: it does not know this run's secret"));
  CHECK(store->get("k") == "v");
}

TEST_CASE("a server that does not know the secret is no store to write to") {
  const auto impostor = listen_on("127.0.0.1", 0);
  std::thread answers([&] {
    std::string peer;
    Descriptor client;
    while (client.fd() < 0) client = accept_from(impostor, peer);
    send_all(client, cat(greeting, "nnnnnnnnnnnnnnnn"), 5s);
    receive_exactly(client, Nonces::size + proof_bytes, 5s);
    send_all(client, std::string(proof_bytes, 'p'), 5s);
  });
  CHECK_THAT(test::error_of([&] { Store::connect("127.0.0.1", port_of(impostor), "x", 5s, {"secret of the run"}); }),
             Contains("who answers there does not know this run's secret"));
  answers.join();
}

TEST_CASE("a flood of strangers, of garbage and of silence changes nothing and is one line of the log") {
  const Log log;
  const auto store = Store::serve("127.0.0.1", 0, "x", "the secret of this run");
  std::vector<Descriptor> silent;
  for (int i = 0; i < 400; ++i) {
    silent.push_back(connect_to("127.0.0.1", store->port(), 5s));
    if (i % 2 == 0) continue;
    std::string garbage(5000, static_cast<char>(i));
    send_some(silent.back(), garbage);
  }
  store->set("k", "v");
  CHECK(Store::connect("127.0.0.1", store->port(), "x", 5s, {"the secret of this run"})->get("k") == "v");
  CHECK(log.says("was refused"));
  const auto text = log.text();
  CHECK(text.find("was refused") == text.rfind("was refused"));
}

TEST_CASE("the store of a run on one host cannot be reached from another") {
  const auto store = Store::serve("127.0.0.1", 0, "x");
  for (const auto& address : own_addresses()) {
    if (is_loopback(address)) continue;
    INFO(address);
    CHECK_THROWS_AS(connect_to(address, store->port(), 1s), std::system_error);
  }
}

TEST_CASE("a secret lies in a file for only this user, and one that others could have written is none") {
  const test::Folder folder;
  Rendezvous where;
  where.secret_file = folder / "deeper/secret-4711.0.0";
  CHECK_FALSE(find_secret(where));
  const auto secret = make_secret(where);
  CHECK(secret.size() == 32);
  CHECK(find_secret(where) == secret);
  struct stat info {};
  REQUIRE(::stat(where.secret_file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600);
  REQUIRE(::chmod(where.secret_file.c_str(), 0644) == 0);
  CHECK_THAT(test::error_of([&] { find_secret(where); }),
             Contains("others than this user could have written or read it") && Contains("export CAPSTAN_SECRET"));
  where.secret = "given by the launcher";
  CHECK(find_secret(where) == where.secret);
  CHECK(make_secret(where) == where.secret);
}
