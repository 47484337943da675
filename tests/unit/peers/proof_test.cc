#include "peers/proof.h"

#include <capstan_catch.h>

namespace proof_test {

using namespace capstan::peers;

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

}  // namespace proof_test
