#include "peers/network.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "peers/sockets.h"

namespace capstan::peers {
namespace {

struct Interface {
  std::string name;
  std::string address;
  bool up = false;
};

std::string digits(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* raw = address->sa_family == AF_INET
                        ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                        : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  if (inet_ntop(address->sa_family, raw, text.data(), static_cast<socklen_t>(text.size())) == nullptr) return {};
  return text.data();
}

bool has_address(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

/// IPv4 addresses first, otherwise in the system's order.
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Interface> found;
  for (const bool ipv4 : {true, false}) {
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (!has_address(i->ifa_addr) || (i->ifa_addr->sa_family == AF_INET) != ipv4) continue;
      found.push_back({i->ifa_name, digits(i->ifa_addr), (i->ifa_flags & IFF_UP) != 0});
    }
  }
  return found;
}

/// The list's addresses, each once, IPv4 first.
std::vector<std::string> addresses(const AddressList& list) {
  std::vector<std::string> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* i = list.get(); i != nullptr; i = i->ai_next) {
      if (i->ai_family != family) continue;
      const std::string address = digits(i->ai_addr);
      if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> resolve(const std::string& host) {
  int status = 0;
  const auto list = look_up(host, 0, 0, status);
  if (!list) {
    throw Error(cat("the rendezvous host '", host, "' is unknown: ", gai_strerror(status)),
                "check MASTER_ADDR, or unset it: Capstan then publishes the address itself");
  }
  auto found = addresses(list);
  if (found.empty()) throw Error(cat("the rendezvous host '", host, "' has no IP address"), "check MASTER_ADDR");
  return found;
}

std::string address_of_interface(const std::string& interface) {
  std::vector<std::string> names;
  for (const Interface& i : interfaces()) {
    if (i.name == interface) return i.address;
    if (names.empty() || names.back() != i.name) names.push_back(i.name);
  }
  throw Error(cat("there is no network interface '", interface, "' with an address"),
              cat("this host has ", join(names)));
}

std::string address_towards(const std::string& address) {
  constexpr int discard = 9;  // any port: nothing is sent
  int status = 0;
  const auto target = look_up(address, discard, AI_NUMERICHOST, status);
  if (!target) return {};
  const Descriptor way(::socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  auto* local = reinterpret_cast<sockaddr*>(&own);
  socklen_t size = sizeof own;
  const bool known =
      ::connect(way.fd(), target->ai_addr, target->ai_addrlen) == 0 && ::getsockname(way.fd(), local, &size) == 0;
  return known ? digits(local) : std::string();
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  const auto add = [&found](const std::string& address) {
    if (is_loopback(address) || address.starts_with("fe80:")) return;  // a link-local one needs the interface's name
    if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
  };
  std::array<char, 256> name{};
  int status = 0;
  if (gethostname(name.data(), name.size()) == 0) {
    for (const std::string& address : addresses(look_up(name.data(), 0, 0, status))) {
      if (address.find(':') == std::string::npos) add(address);
    }
  }
  for (const Interface& i : interfaces()) {
    if (i.up) add(i.address);
  }
  if (found.empty()) found.emplace_back("127.0.0.1");
  return found;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

}  // namespace capstan::peers
