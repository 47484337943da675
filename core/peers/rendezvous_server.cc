#include "peers/rendezvous_server.h"

#include "peers/failure.h"
#include "peers/proof.h"

namespace capstan::peers {

RendezvousServer::RendezvousServer(const std::string& prefix) {
  where_.secret = new_secret();
  store_ = serve_store("127.0.0.1", 0, prefix, where_.secret);
  where_.host = "127.0.0.1";
  where_.port = store_->port();
  where_.prefix = prefix;
  where_.store_exists = true;
}

void RendezvousServer::publish_failure(int rank, const std::string& host, const std::string& message) {
  store_->set_if_absent("failure", Failure{rank, host, message}.serialized());
}

}  // namespace capstan::peers
