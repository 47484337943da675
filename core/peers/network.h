#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// The host's addresses as digits, each once, IPv4 first: "localhost" -> "127.0.0.1", "::1". Throws Error for an
/// unknown host.
std::vector<std::string> resolve(const std::string& host);
/// The address of a network interface of this host; throws Error that names the existing interfaces.
std::string address_of_interface(const std::string& interface);
/// This host's address on the route to another; "" when there is no route.
std::string address_towards(const std::string& address);
/// Addresses under which other hosts may reach this one: that of the host's name unless it is a loopback one, then
/// those of the interfaces that are up, IPv4 before IPv6; "127.0.0.1" on a machine without network.
std::vector<std::string> own_addresses();
bool is_loopback(const std::string& address);

}  // namespace peers
CAPSTAN_END_NAMESPACE
