#include "comm/network.h"

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

namespace capstan::comm {
namespace {

struct Interface {
  std::string name;
  std::string address;
  bool ipv4 = false;
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
      found.push_back({i->ifa_name, digits(i->ifa_addr), ipv4, (i->ifa_flags & IFF_UP) != 0});
    }
  }
  return found;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList look_up(const std::string& host, int& status) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  status = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  return {status == 0 ? list : nullptr, freeaddrinfo};
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

/// A socket's address of IPv4 or IPv6; false when the text is neither.
bool parse_address(const std::string& text, sockaddr_storage& address, socklen_t& size) {
  const std::uint16_t discard = htons(9);  // any port: nothing is sent
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  address = {};
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = discard;
    size = sizeof v4;
    return true;
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) != 1) return false;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = discard;
  size = sizeof v6;
  return true;
}

}  // namespace

std::vector<std::string> resolve(const std::string& host) {
  int status = 0;
  const AddressList list = look_up(host, status);
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
  sockaddr_storage target{};
  socklen_t size = 0;
  if (!parse_address(address, target, size)) return {};
  const int socket_fd = socket(target.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return {};
  sockaddr_storage local{};
  socklen_t local_size = sizeof local;
  const bool known = connect(socket_fd, reinterpret_cast<const sockaddr*>(&target), size) == 0 &&
                     getsockname(socket_fd, reinterpret_cast<sockaddr*>(&local), &local_size) == 0;
  close(socket_fd);
  return known ? digits(reinterpret_cast<const sockaddr*>(&local)) : std::string();
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
    for (const std::string& address : addresses(look_up(name.data(), status))) {
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

}  // namespace capstan::comm
