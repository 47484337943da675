#include "comm/store_client.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "comm/proof.h"

namespace capstan::comm {
namespace {

using ClientClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The server answers at once; its process may be suspended for a while.
constexpr milliseconds answer_limit{300000};

std::vector<std::uint8_t> as_bytes_list(const std::string& text) { return {text.begin(), text.end()}; }
std::string as_text(const std::vector<std::uint8_t>& data) { return {data.begin(), data.end()}; }

Texts request_of(const char* verb, const std::vector<std::string>& keys) {
  Texts request{verb};
  request.insert(request.end(), keys.begin(), keys.end());
  return request;
}

std::int64_t number_of(const Texts& answer) { return answer.empty() ? 0 : std::stoll(answer.front()); }

}  // namespace

StoreClient::StoreClient(std::string address, int port, std::string secret, milliseconds limit)
    : address_(std::move(address)), port_(port), secret_(std::move(secret)) {
  constexpr milliseconds between{50};
  const auto until = ClientClock::now() + limit;
  for (;;) {
    try {
      const auto left = std::chrono::duration_cast<milliseconds>(until - ClientClock::now());
      socket_ = connect_to(address_, port_, std::max(left, between));
      prove(std::max(left, between));
      return;
    } catch (const std::system_error& error) {
      if (ClientClock::now() + between > until) throw std::runtime_error(cat(address_, ":", port_, ": ", error.what()));
    }
    std::this_thread::sleep_for(between);
  }
}

void StoreClient::prove(milliseconds limit) {
  const auto hello = receive_exactly(socket_, greeting.size() + Nonces::size, limit);
  if (!hello.starts_with(greeting)) throw std::runtime_error("who answers there is no store of Capstan's");
  const Nonces nonces{hello.substr(greeting.size()), random_bytes(Nonces::size)};
  send_all(socket_, nonces.client + proof(secret_, "client", nonces), limit);
  if (!is_proof(receive_exactly(socket_, proof_bytes, limit), secret_, "server", nonces))
    throw std::runtime_error("who answers there does not know this run's secret");
}

Texts StoreClient::ask(const Texts& request) {
  const std::scoped_lock lock(mutex_);
  send_all(socket_, packed(request), answer_limit);
  const auto size = message_length(receive_exactly(socket_, 4, answer_limit));
  auto answer = size > longest_message ? std::nullopt : unpacked(receive_exactly(socket_, size, answer_limit));
  if (!answer) throw std::runtime_error("its answer is none");
  return std::move(*answer);
}

c10::intrusive_ptr<c10d::Store> StoreClient::clone() {
  constexpr milliseconds limit{60000};
  return c10::make_intrusive<StoreClient>(address_, port_, secret_, limit);
}

void StoreClient::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  ask({"set", key, as_text(value)});
}

std::vector<std::uint8_t> StoreClient::compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                                  const std::vector<std::uint8_t>& desired) {
  const auto answer = ask({"compare", key, as_text(expected), as_text(desired)});
  return answer.empty() ? std::vector<std::uint8_t>{} : as_bytes_list(answer.front());
}

std::vector<std::uint8_t> StoreClient::get(const std::string& key) { return multiGet({key}).front(); }

std::int64_t StoreClient::add(const std::string& key, std::int64_t value) {
  return number_of(ask({"add", key, std::to_string(value)}));
}

bool StoreClient::deleteKey(const std::string& key) { return number_of(ask({"erase", key})) > 0; }
bool StoreClient::check(const std::vector<std::string>& keys) { return number_of(ask(request_of("check", keys))) == 1; }
std::int64_t StoreClient::getNumKeys() { return number_of(ask({"count"})); }
void StoreClient::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void StoreClient::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  const auto until = ClientClock::now() + timeout;
  milliseconds pause{1};
  while (!check(keys)) {
    if (timeout != kNoTimeout && ClientClock::now() > until)
      throw std::runtime_error(cat("no rank has set ", join(keys), " in time"));
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, milliseconds(50));
  }
}

void StoreClient::append(const std::string& key, const std::vector<std::uint8_t>& value) {
  ask({"append", key, as_text(value)});
}

std::vector<std::vector<std::uint8_t>> StoreClient::multiGet(const std::vector<std::string>& keys) {
  wait(keys);
  const auto answer = ask(request_of("get", keys));
  if (answer.size() != keys.size()) throw std::runtime_error(cat("a key of ", join(keys), " is gone"));
  std::vector<std::vector<std::uint8_t>> out;
  for (const auto& value : answer) out.push_back(as_bytes_list(value));
  return out;
}

void StoreClient::multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<std::uint8_t>>& values) {
  for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values.at(i));
}

}  // namespace capstan::comm
