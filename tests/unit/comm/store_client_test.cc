#include "comm/store_client.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <thread>

#include "comm/proof.h"
#include "comm/sockets.h"
#include "comm/store.h"
#include "comm/store_server.h"
#include "support/errors.h"

namespace store_client_test {

using namespace capstan;
using namespace capstan::comm;
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
  CHECK_THAT(test::error_of([&] { Store::connect("127.0.0.1", port_of(impostor), "x", 5s, {"secret of the run"}); }),
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
  CHECK_THROWS_WITH(StoreClient("127.0.0.1", port_of(other), "secret", 5s),
                    "who answers there is no store of Capstan's");
  answers.join();
}

TEST_CASE("keys are counted, added to, appended to, compared, and gone when they were deleted") {
  const auto server = start_store_server("127.0.0.1", 0, "secret");
  StoreClient client("127.0.0.1", server->port(), "secret", 5s);
  CHECK(client.add("number", 2) == 2);
  CHECK(client.add("number", -5) == -3);
  client.append("text", {'a'});
  client.append("text", {'b'});
  CHECK(client.get_to_str("text") == "ab");
  CHECK(client.compareSet("text", "other", "c") == "ab");
  CHECK(client.compareSet("text", "ab", "c") == "c");
  CHECK(client.getNumKeys() == 2);
  CHECK(client.deleteKey("text"));
  CHECK_FALSE(client.deleteKey("text"));
  CHECK_THROWS_WITH(client.wait({"number", "text"}, 1ms), "no rank has set number, text in time");
}

}  // namespace store_client_test
