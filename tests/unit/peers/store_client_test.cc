#include "peers/store.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <thread>

#include "peers/proof.h"
#include "peers/sockets.h"
#include "peers/wire.h"
#include "support/errors.h"

namespace store_client_test {

using namespace capstan;
using namespace capstan::peers;
using namespace std::chrono_literals;

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
  CHECK_THAT(test::error_of([&] { connect_store("127.0.0.1", port_of(impostor), "x", 5s, "secret of the run"); }),
             Contains("who answers there does not know this run's secret"));
  answers.join();
}

TEST_CASE("who answers, but is no store of Capstan's, is said so") {
  const auto other = listen_on("127.0.0.1", 0);
  std::thread answers([&] {
    std::string peer;
    Descriptor client;
    while (client.fd() < 0) client = accept_from(other, peer);
    send_all(client, "HTTP/1.1 400 Bad Request\r\n\r\n", 5s);
    std::string rest;
    while (receive(client, rest, 1000)) std::this_thread::yield();
  });
  CHECK_THAT(test::error_of([&] { connect_store("127.0.0.1", port_of(other), "x", 5s, "secret"); }),
             Contains("who answers there is no store of Capstan's"));
  answers.join();
}

TEST_CASE("keys are counted, added to, appended to, compared, and gone when they were erased") {
  const auto store = serve_store("127.0.0.1", 0, "x", "secret");
  CHECK(store->add("number", 2) == 2);
  CHECK(store->add("number", -5) == -3);
  store->append("text", "a");
  store->append("text", "b");
  CHECK(store->get("text") == "ab");
  CHECK(store->compare_and_set("text", "other", "c") == "ab");
  CHECK(store->compare_and_set("text", "ab", "c") == "c");
  CHECK(store->compare_and_set("absent", "other", "c") == "other");
  CHECK(store->count() == 2);
  CHECK(store->erase("text"));
  CHECK_FALSE(store->erase("text"));
  CHECK_THAT(test::error_of([&] {
               store->get(std::vector<std::string>{"number", "text"});
             }),
             Contains("does not have all of number, text"));
}

}  // namespace store_client_test
